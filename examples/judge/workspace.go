package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// workspace is the temporary directory of one judging. Below it, build holds
// the source and the program; each run gets a directory of its own.
type workspace struct{ root string }

func newWorkspace() (workspace, error) {
	root, err := os.MkdirTemp("", "judge-")
	if err != nil {
		return workspace{}, err
	}
	w := workspace{root}
	return w, os.Mkdir(w.build(), 0o700)
}

func (w workspace) build() string { return filepath.Join(w.root, "build") }

// remove deletes the workspace. A submission may have taken the permissions off
// a directory of its own, which stops a judge that is not root; then they are
// put back first.
func (w workspace) remove() error {
	if err := os.RemoveAll(w.root); err == nil {
		return nil
	}
	_ = filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(w.root)
}

// runDir is where one process works and what it writes. The captured output
// lies beside its working directory, out of the way of files it creates.
type runDir struct {
	work   string
	stdout *os.File
	stderr *os.File
}

func (w workspace) newRunDir() (runDir, error) {
	top, err := os.MkdirTemp(w.root, "run-")
	if err != nil {
		return runDir{}, err
	}
	r := runDir{work: filepath.Join(top, "work")}
	if err := os.Mkdir(r.work, 0o700); err != nil {
		return runDir{}, err
	}
	if r.stdout, err = os.Create(filepath.Join(top, "stdout")); err != nil {
		return runDir{}, err
	}
	if r.stderr, err = os.Create(filepath.Join(top, "stderr")); err != nil {
		r.stdout.Close()
		return runDir{}, err
	}
	return r, nil
}

func (r runDir) close() {
	r.stdout.Close()
	r.stderr.Close()
}

// fileSize is how much of a file there is, or 0 if that cannot be told.
func fileSize(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// head and tail read at most so many bytes from a file's start or end.
func head(f *os.File, most int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, most))
}

func tail(f *os.File, most int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, max(0, fileSize(f)-most), most))
}
