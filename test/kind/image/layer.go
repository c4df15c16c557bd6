package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// A File is a file, or a symbolic link, of an image. It belongs to root.
type File struct {
	// Path is where the image has it, without a leading slash.
	Path string
	// Mode are its permissions; 0o644 when zero.
	Mode int64
	// Time is when it was changed; 1970 when zero.
	Time time.Time
	// Link is what a symbolic link points at.
	Link string
	// Source is the path of a file with the content, Content the content itself.
	Source  string
	Content []byte
}

// Files is a layer of files, in the order of their paths.
func Files(files ...File) Layer {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return func(w io.Writer) error {
		out := tar.NewWriter(w)
		for _, file := range files {
			if err := file.write(out); err != nil {
				return fmt.Errorf("cannot write %s: %w", file.Path, err)
			}
		}
		return out.Close()
	}
}

// Archive is the layer that a tar archive on disk is.
func Archive(path string) Layer {
	return func(w io.Writer) error {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("cannot open a layer: %w", err)
		}
		defer file.Close()
		if _, err := io.Copy(w, file); err != nil {
			return fmt.Errorf("cannot read a layer: %w", err)
		}
		return nil
	}
}

func (f File) write(out *tar.Writer) error {
	changed := cmp.Or(f.Time, created)
	if f.Link != "" {
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: f.Path, Linkname: f.Link, Mode: 0o777, ModTime: changed, Format: tar.FormatPAX})
	}
	content, size, err := f.open()
	if err != nil {
		return err
	}
	defer content.Close()
	head := header(f.Path, size)
	head.Mode, head.ModTime = cmp.Or(f.Mode, head.Mode), changed
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return err
}

// open opens the content of a file and tells how long it is.
func (f File) open() (io.ReadCloser, int64, error) {
	if f.Source == "" {
		return io.NopCloser(bytes.NewReader(f.Content)), int64(len(f.Content)), nil
	}
	file, err := os.Open(f.Source)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
