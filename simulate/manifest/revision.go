package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ReadRevision returns the objects of files and folders in a revision of their git repository.
// Files that were added or deleted since are not an error. It runs git.
func ReadRevision(revision string, sources []string, recursive bool) ([]Object, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, fmt.Errorf("invalid revision %q", revision)
	}
	r := &revisionReader{revision: revision, recursive: recursive, seen: map[string]bool{}, trees: map[string]*gitTree{}}
	for _, source := range sources {
		if source == Stdin {
			return nil, errors.New("standard input has no revisions: name files or folders")
		}
		if err := r.source(source); err != nil {
			return nil, fmt.Errorf("cannot read %s of revision %s: %w", source, revision, err)
		}
	}
	for i := range r.out {
		r.out[i].Where.File += "@" + revision
	}
	return r.out, errors.Join(r.problems...)
}

type revisionReader struct {
	revision  string
	recursive bool
	// trees by top folder of the repository.
	trees    map[string]*gitTree
	out      []Object
	problems []error
	seen     map[string]bool
}

func (r *revisionReader) source(name string) error {
	info, missing := os.Lstat(name)
	folder, rest := filepath.Dir(name), filepath.Base(name)
	if missing == nil && info.IsDir() {
		folder, rest = name, "."
	}
	for !isFolder(folder) && folder != filepath.Dir(folder) { // the folder may be deleted
		folder, rest = filepath.Dir(folder), filepath.Join(filepath.Base(folder), rest)
	}
	tree, prefix, err := r.tree(folder)
	if err != nil {
		return err
	}
	found, err := tree.resolve(path.Join(prefix, filepath.ToSlash(rest)))
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing != nil:
		return errors.New("not found in the revision or on disk")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if e, isFile := tree.files[found]; isFile {
		return r.files(tree, []revisionFile{{name, e.object}}, true)
	}
	files, err := r.filesIn(tree, name, found)
	if err != nil {
		return err
	}
	return r.files(tree, files, false)
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// filesIn lists the manifests of a folder, and follows links to files.
func (r *revisionReader) filesIn(tree *gitTree, name, folder string) ([]revisionFile, error) {
	var out []revisionFile
	for _, at := range tree.names {
		rest := at
		if folder != "." {
			var beneath bool
			if rest, beneath = strings.CutPrefix(at, folder+"/"); !beneath {
				continue
			}
		}
		if !slices.Contains(extensions, path.Ext(rest)) || isHidden(rest) || !r.recursive && strings.Contains(rest, "/") {
			continue
		}
		found, err := tree.resolve(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if e, isFile := tree.files[found]; isFile && e.mode != gitModule {
			out = append(out, revisionFile{filepath.Join(name, filepath.FromSlash(rest)), e.object})
		}
	}
	return out, nil
}

type revisionFile struct{ name, object string }

func (r *revisionReader) files(tree *gitTree, files []revisionFile, named bool) error {
	files = slices.DeleteFunc(files, func(f revisionFile) bool {
		again := r.seen[filepath.Clean(f.name)]
		r.seen[filepath.Clean(f.name)] = true
		return again
	})
	for _, f := range files {
		content, err := tree.git("cat-file", "blob", f.object)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		r.add(f.name, content, named)
	}
	return nil
}

// add reads a file. Other programs' files of folders are skipped.
func (r *revisionReader) add(name string, content []byte, named bool) {
	if !named && isChartTemplate(name) {
		return
	}
	documents, err := split(name, content, named)
	if named || !(Document{text: content, json: true}).isOther() {
		r.problems = append(r.problems, err)
	}
	for _, d := range documents {
		d.inFolder = !named
		if found, err := d.Objects(); !errors.Is(err, errOther) {
			r.out, r.problems = append(r.out, found...), append(r.problems, err)
		}
	}
}

// tree returns the git tree of the folder's repository, and the folder's path in that tree.
func (r *revisionReader) tree(folder string) (tree *gitTree, prefix string, err error) {
	where, err := (&gitTree{top: folder}).git("rev-parse", "--show-cdup", "--show-prefix")
	if err != nil {
		return nil, "", err
	}
	up, prefix, _ := strings.Cut(string(where), "\n")
	prefix = strings.TrimSuffix(strings.TrimSuffix(prefix, "\n"), "/")
	top, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, "", err
	}
	if top = filepath.Join(top, filepath.FromSlash(up)); r.trees[top] == nil {
		tree := &gitTree{top: top, files: map[string]gitEntry{}, folders: map[string]bool{".": true}}
		if err := tree.list(r.revision); err != nil {
			return nil, "", err
		}
		r.trees[top] = tree
	}
	return r.trees[top], prefix, nil
}

const (
	gitLink   = "120000"
	gitModule = "160000"
)

type gitEntry struct{ mode, object string }

type gitTree struct {
	top     string
	names   []string // of files, in git's order
	files   map[string]gitEntry
	folders map[string]bool
}

// list reads the tree. NUL-separated output supports any character in names.
func (t *gitTree) list(revision string) error {
	out, err := t.git("ls-tree", "-rz", "--full-tree", revision)
	if err != nil {
		return fmt.Errorf("%w: fetch the revision, or name another one", err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		about, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(about) // mode, type, object
		if len(fields) < 3 {
			continue
		}
		t.names = append(t.names, name)
		t.files[name] = gitEntry{fields[0], fields[2]}
		for folder := path.Dir(name); !t.folders[folder]; folder = path.Dir(folder) {
			t.folders[folder] = true
		}
	}
	return nil
}

// maxLinks limits chains of symbolic links, like Linux.
const maxLinks = 40

// resolve follows symbolic links; without such a path it returns fs.ErrNotExist.
func (t *gitTree) resolve(name string) (string, error) {
	name = path.Clean(name)
	for range maxLinks {
		link := t.link(name)
		if link == "" {
			if _, isFile := t.files[name]; !isFile && !t.folders[name] {
				return "", fs.ErrNotExist
			}
			return name, nil
		}
		target, err := t.git("cat-file", "blob", t.files[link].object)
		if err != nil {
			return "", err
		}
		to := path.Join(path.Dir(link), string(target))
		if path.IsAbs(string(target)) || to == ".." || strings.HasPrefix(to, "../") {
			return "", fmt.Errorf("the symbolic link %s leads out of the repository", link)
		}
		name = path.Join(to, strings.TrimPrefix(name, link))
	}
	return "", errors.New("too many symbolic links")
}

// link returns the shortest prefix of a path that is a symbolic link; empty for none.
func (t *gitTree) link(name string) string {
	for i := range len(name) + 1 {
		if i == len(name) || name[i] == '/' {
			if t.files[name[:i]].mode == gitLink {
				return name[:i]
			}
		}
	}
	return ""
}

func (t *gitTree) git(args ...string) ([]byte, error) {
	command := exec.Command("git", append([]string{"-C", t.top}, args...)...)  //nolint:gosec // the user's own git and revision
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // git sets them in hooks, for another repository
		return strings.HasPrefix(variable, "GIT_") && !strings.HasPrefix(variable, "GIT_CONFIG_")
	})
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil && stderr.Len() > 0 {
		err = errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, err
}

func isHidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}
