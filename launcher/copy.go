package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/virtwright/virtwright/launcher/files"
)

const copyChunk = 64 << 10

// Copy copies a file, or the only file of a folder, as a sparse file with the same executable bits.
// The copy gets its name when it is complete.
func Copy(from, to string) error {
	info, err := os.Stat(from)
	if err == nil && info.IsDir() {
		name, problem := files.OnlyFile(from)
		if problem != nil {
			return problem
		}
		from = filepath.Join(from, name)
		info, err = os.Stat(from)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", from)
	}
	if err != nil {
		return fmt.Errorf("cannot copy: %w", err)
	}
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("cannot copy: %w", err)
	}
	defer source.Close()
	unfinished := to + ".unfinished"
	target, err := os.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644|info.Mode().Perm()&0o111)
	if err != nil {
		return fmt.Errorf("cannot copy: %w", err)
	}
	if err := errors.Join(copyHoles(target, source), target.Close()); err != nil {
		return fmt.Errorf("cannot copy %s: %w", from, errors.Join(err, os.Remove(unfinished)))
	}
	return os.Rename(unfinished, to)
}

func copyHoles(target *os.File, source io.Reader) error {
	chunk, zeros, size := make([]byte, copyChunk), make([]byte, copyChunk), int64(0)
	for {
		n, err := io.ReadFull(source, chunk)
		if !bytes.Equal(chunk[:n], zeros[:n]) {
			if _, err := target.WriteAt(chunk[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return target.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}
