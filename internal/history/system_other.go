//go:build !unix

package history

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Elsewhere no process can be stopped, and the wall clock must do.

func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }

func apart() *syscall.SysProcAttr { return nil }

func stopProcess(*os.Process) error     { return errors.ErrUnsupported }
func continueProcess(*os.Process) error { return errors.ErrUnsupported }
