package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A misplaced is something in a folder of volumes or images that could be any
// file of the host's, and why.
type misplaced struct{ file, why string }

func (m *misplaced) Error() string { return fmt.Sprintf("%s %s", m.file, m.why) }

// inside is the real path of a file in a folder of a host's folder. Who fills
// that folder fills it with files of its own: no link leads to another of the
// host's, neither in place of the file nor of a folder on the way. The host's
// folder itself may be a link. A device is taken where they may be there.
func inside(root, folder, name string, devices bool) (string, error) {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the host: %w", err)
	}
	folder = filepath.Join(resolved, folder)
	if rel, err := filepath.Rel(resolved, folder); err != nil || !filepath.IsLocal(rel) {
		return "", &misplaced{folder, "is not below " + resolved}
	}
	file := filepath.Join(folder, name)
	found, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of %s: %w", file, err)
	}
	if found != folder {
		return "", &misplaced{folder, "must be a folder there, not a link; mount what it leads to"}
	}
	info, err := os.Lstat(file)
	if err != nil {
		return "", fmt.Errorf("cannot find the image: %w", err)
	}
	device := info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
	switch {
	case info.Mode().IsRegular(), device && devices:
		return file, nil
	case devices:
		return "", &misplaced{file, "must be a plain file or a block device itself, not a link"}
	}
	return "", &misplaced{file, "must be a plain file, not a link or a device"}
}
