package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// isoPrograms make ISO images and know the same flags.
var isoPrograms = []string{"xorrisofs", "genisoimage", "mkisofs"}

// makeISO makes an image of files, by their paths in it, under a label.
func makeISO(ctx context.Context, image, label string, files map[string][]byte) error {
	program := ""
	for _, name := range isoPrograms {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		return fmt.Errorf("cannot make an ISO image: there is none of %s", strings.Join(isoPrograms, ", "))
	}
	tree, err := os.MkdirTemp(filepath.Dir(image), ".unfinished-")
	if err != nil {
		return fmt.Errorf("cannot make an ISO image: %w", err)
	}
	defer func() { _ = os.RemoveAll(tree) }()
	for name, content := range files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("cannot put %q into an ISO image: it is not below the root", name)
		}
		file := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600)); err != nil {
			return fmt.Errorf("cannot make an ISO image: %w", err)
		}
	}
	return replace(image, func(unfinished string) error {
		return run(ctx, program, "-quiet", "-o", unfinished, "-V", label, "-J", "-R", tree)
	})
}
