package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/virtwright/virtwright/domain"
)

// programTimeout limits a program that writes or reads an image.
const programTimeout = 5 * time.Minute

// run runs a program. The error contains its standard error.
func run(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, program, args...)
	return err
}

func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot run %s: %w: %s", program, err, strings.Join(strings.Fields(stderr.String()), " "))
	}
	return stdout.Bytes(), nil
}

// look returns the facts of a raw image.
func look(file string) (*domain.VolumeFacts, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot find the image: %w", err)
	}
	facts := &domain.VolumeFacts{Path: file, Format: "raw", Block: info.Mode()&fs.ModeType == fs.ModeDevice}
	if !facts.Block && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot use %s: it is neither a regular file nor a block device", file)
	}
	direct := directIO(file)
	facts.DirectIO = &direct
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		size := uint(min(max(stat.Blksize, 512), 4096))
		facts.LogicalBlockSize, facts.PhysicalBlockSize = size, size
		if facts.Block {
			facts.LogicalBlockSize, facts.PhysicalBlockSize = blockSizes(file)
		}
		facts.Preallocated = !facts.Block && info.Size() > 0 && stat.Blocks*512 >= info.Size()
	}
	return facts, nil
}

// blockSizes returns the sizes of the sectors of a block device; 0 if the device does not say.
func blockSizes(device string) (logical, physical uint) {
	opened, err := os.OpenFile(device, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, 0
	}
	defer opened.Close()
	size := func(request uint) uint {
		n, err := unix.IoctlGetInt(int(opened.Fd()), request)
		if err != nil || n < 0 {
			return 0
		}
		return uint(n)
	}
	return size(unix.BLKSSZGET), size(unix.BLKPBSZGET)
}

// directIO reports whether a file can be read without the page cache.
func directIO(file string) bool {
	opened, err := os.OpenFile(file, os.O_RDONLY|syscall.O_DIRECT|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	opened.Close()
	return true
}

// format probes the format of an image that no guest writes to. It rejects a backing file, which
// could be any file of the pod.
func format(ctx context.Context, file string) (string, error) {
	text, err := output(ctx, "qemu-img", "info", "-U", "--output=json", file)
	if err != nil {
		return "", err
	}
	var info struct {
		Format   string `json:"format"`
		Backing  string `json:"backing-filename"`
		Specific struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("cannot read the output of qemu-img for %s: %w", file, err)
	}
	switch {
	case info.Format != "raw" && info.Format != "qcow2":
		return "", fmt.Errorf("cannot use %s: its format is %s, not qcow2 or raw", file, info.Format)
	case info.Backing != "" || info.Specific.Data.DataFile != "":
		return "", fmt.Errorf("cannot use %s: it has a backing file", file)
	}
	return info.Format, nil
}

// replace creates a file with another name and renames it when it is complete.
func replace(path string, create func(unfinished string) error) error {
	unfinished := path + ".unfinished"
	_ = os.Remove(unfinished) // of a launcher that was killed
	empty, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create %s: %w", filepath.Base(path), err)
	}
	empty.Close()
	err = create(unfinished)
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot create %s: %w", filepath.Base(path), err), os.Remove(unfinished))
	}
	return nil
}
