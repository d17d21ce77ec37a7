package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// lockName is the lock file of a data directory. It holds the process id of the
// holder, for people; what counts is the kernel's lock on it. The file stays when
// the lock is given up: removing it could take it from under a process that has
// just opened it.
const lockName = "weft.lock"

// ErrLocked: another process uses the data directory.
var ErrLocked = errors.New("data directory is in use")

// dirLock is a lock on a directory; the nil lock is none.
type dirLock struct{ file *flock.Flock }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	file := flock.New(path, flock.SetPermissions(0o600))
	taken, err := file.TryLock()
	if err != nil {
		return nil, fmt.Errorf("data directory %s cannot be locked: %w", dir, reason(err))
	}
	if !taken {
		return nil, fmt.Errorf("%w: %s belongs to %s; stop it, or give another directory with --data", ErrLocked, dir, holder(path))
	}
	lock := &dirLock{file}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s cannot be written: %w", dir, reason(err)), lock.unlock())
	}
	return lock, nil
}

// holder names the process that has the lock.
func holder(path string) string {
	text, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(text))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "another process"
	}
	return "process " + pid
}

func (l *dirLock) unlock() error {
	if l == nil {
		return nil
	}
	return l.file.Unlock()
}
