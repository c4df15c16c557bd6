package manifest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ReadRevision returns the objects of files and folders as they were in a revision of the git
// repository that they lie in. A file or folder that did not exist there has none. It runs git.
func ReadRevision(revision string, sources []string, recursive bool) ([]Object, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, fmt.Errorf("%q is no revision", revision)
	}
	r := &revisionReader{seen: map[string]bool{}}
	for _, source := range sources {
		if source == Stdin {
			return nil, errors.New("standard input has no revisions: name files or folders")
		}
		info, err := os.Stat(source)
		if err != nil {
			return nil, cannotRead(source, err)
		}
		folder, name := source, "."
		if !info.IsDir() {
			folder, name = filepath.Dir(source), filepath.Base(source)
		}
		archive, err := archived(folder, revision, name)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s of revision %s: %w", source, revision, err)
		}
		if err := r.archive(archive, folder, info.IsDir(), recursive); err != nil {
			return nil, fmt.Errorf("cannot read %s of revision %s: %w", source, revision, err)
		}
	}
	for i := range r.out {
		r.out[i].Where.File += "@" + revision
	}
	return r.out, errors.Join(r.problems...)
}

// A revisionReader collects the objects of archives.
type revisionReader struct {
	out      []Object
	problems []error
	seen     map[string]bool
}

// archived returns the tar archive of a path beneath a folder; nil where the revision lacks it.
func archived(folder, revision, name string) ([]byte, error) {
	out, err := git(folder, "ls-tree", "--name-only", revision, "--", name)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	return git(folder, "archive", "--format=tar", revision, "--", name)
}

func git(folder string, args ...string) ([]byte, error) {
	command := exec.Command("git", append([]string{"-C", folder}, args...)...) //nolint:gosec // the user's own git and revision
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil && stderr.Len() > 0 {
		err = errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, err
}

// archive reads the files of an archive as those of a folder.
func (r *revisionReader) archive(archive []byte, folder string, isFolder, recursive bool) error {
	files := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) || len(archive) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(folder, filepath.FromSlash(header.Name))
		switch {
		case header.Typeflag != tar.TypeReg, r.seen[name]:
			continue
		case isFolder && (!slices.Contains(extensions, filepath.Ext(name)) || isHidden(header.Name) || !recursive && strings.Contains(header.Name, "/")):
			continue
		}
		r.seen[name] = true
		content, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		r.content(name, content, !isFolder)
	}
}

func (r *revisionReader) content(name string, content []byte, named bool) {
	documents, err := split(name, content, named)
	r.problems = append(r.problems, err)
	for _, d := range documents {
		found, err := d.Objects()
		r.out, r.problems = append(r.out, found...), append(r.problems, err)
	}
}

// isHidden reports whether a part of a path begins with a dot.
func isHidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}
