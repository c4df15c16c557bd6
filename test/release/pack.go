package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/virtwright/virtwright/test/kind/image"
)

// checksumsFile lists the other files of the release.
const checksumsFile = "checksums.txt"

// below puts files into a folder, with the time of the release.
func (r *release) below(folder string, files []image.File) []image.File {
	for i := range files {
		files[i].Path, files[i].Time = path.Join(folder, files[i].Path), r.time
	}
	return files
}

// tarred is a tar archive of files, compressed by gzip.
func tarred(files []image.File) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out) // has neither name nor time
	if err := image.Files(files...)(compressed); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("cannot compress: %w", err)
	}
	return out.Bytes(), nil
}

// zipped is a zip archive of files, without links.
func zipped(files []image.File) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, file := range files {
		content := file.Content
		if file.Source != "" {
			var err error
			if content, err = os.ReadFile(file.Source); err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", file.Path, err)
			}
		}
		head := &zip.FileHeader{Name: file.Path, Method: zip.Deflate, Modified: file.Time}
		head.SetMode(fs.FileMode(cmp.Or(file.Mode, 0o644)))
		entry, err := archive.CreateHeader(head)
		if err != nil {
			return nil, fmt.Errorf("cannot add %s: %w", file.Path, err)
		}
		if _, err := entry.Write(content); err != nil {
			return nil, fmt.Errorf("cannot compress %s: %w", file.Path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("cannot end the archive: %w", err)
	}
	return out.Bytes(), nil
}

// writeChecksums lists the files of the release with their hashes, as sha256sum does.
func (r *release) writeChecksums(context.Context) error {
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return fmt.Errorf("cannot list the release: %w", err)
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		if !entry.Type().IsRegular() || entry.Name() == checksumsFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.dist, entry.Name()))
		if err != nil {
			return fmt.Errorf("cannot hash a file of the release: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return r.write(checksumsFile, sums.Bytes())
}
