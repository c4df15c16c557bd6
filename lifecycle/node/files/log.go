package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxLog is how large the log of a guest may get.
	maxLog = 4 << 20
	// keptLog is how much of its end is kept beside it when it is larger.
	keptLog = 1 << 20
	// oldLog ends the name of what is kept.
	oldLog = ".old"
)

// BoundLogs keeps what guests write to their consoles from filling the host's
// disk. QEMU goes on writing at the end of the file, which is then its begin.
func (s *Store) BoundLogs() error {
	uids, err := s.All()
	if err != nil {
		return err
	}
	var problems []error
	for _, uid := range uids {
		logs, _ := filepath.Glob(filepath.Join(s.Dir(uid), "*-log")) // the pattern is well-formed
		made, _ := s.noted(uid)                                      // what cannot be read is removed with the instance
		for _, file := range made {
			if strings.HasSuffix(file, "-log") {
				logs = append(logs, file)
			}
		}
		for _, file := range logs {
			problems = append(problems, bound(file))
		}
	}
	return errors.Join(problems...)
}

// bound empties a log that is too large, and keeps its end.
func bound(file string) error {
	log, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at a log: %w", err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil || info.Size() <= maxLog {
		return err
	}
	err = replace(file+oldLog, func(unfinished string) error {
		kept, err := os.OpenFile(unfinished, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(kept, io.NewSectionReader(log, info.Size()-keptLog, keptLog))
		return errors.Join(err, kept.Close())
	})
	// A disk that is full must not keep the log from being emptied.
	if err := errors.Join(err, log.Truncate(0)); err != nil {
		return fmt.Errorf("cannot bound a log: %w", err)
	}
	return nil
}
