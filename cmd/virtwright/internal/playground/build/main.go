// Command build writes the files of the playground into a folder: the page, Go's wasm_exec.js, and
// the engine as engine.wasm.gz. The same commit gives the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const playground = "./cmd/virtwright/internal/playground"

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run", playground+"/build DIR [LINKER-FLAGS] (in the root folder of the repository)")
		os.Exit(2)
	}
	if err := build(context.Background(), os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// build passes stamps, which set the version, to the linker. Without them, Go records the commit.
func build(ctx context.Context, dir string, stamps ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a web server may read the folder
		return err
	}
	if err := page(dir); err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("cannot find Go: %w", err)
	}
	glue := filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js")
	if err := copyFile(glue, dir); err != nil {
		return err
	}
	return engine(ctx, dir, stamps)
}

// page copies the files of the page, but not the sources of generated ones.
func page(dir string) error {
	web := filepath.Join(filepath.FromSlash(playground), "web")
	for _, pattern := range []string{"*.html", "*.css", "*.js", "*.json", "*.svg", "*.txt"} {
		files, err := filepath.Glob(filepath.Join(web, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if strings.HasPrefix(filepath.Base(file), "package") {
				continue
			}
			if err := copyFile(file, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(file, dir string) error {
	content, err := os.ReadFile(file) //nolint:gosec // a path of the source
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, filepath.Base(file)), content)
}

func write(file string, content []byte) error {
	return os.WriteFile(file, content, 0o644) //nolint:gosec // a web server may read the files
}

func engine(ctx context.Context, dir string, stamps []string) (err error) {
	temporary, err := os.MkdirTemp("", "playground-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	program := filepath.Join(temporary, "engine.wasm")
	env := append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	flags, err := slim(ctx, env, temporary)
	if err != nil {
		return err
	}
	if len(stamps) > 0 {
		flags = append(flags, "-buildvcs=false")
	}
	args := append([]string{"build", "-trimpath", "-ldflags", strings.Join(append(stamps, "-s -w"), " "), "-o", program}, flags...)
	compile := exec.CommandContext(ctx, "go", append(args, playground+"/wasm")...)
	compile.Env = env
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile the engine: %w\n%s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return write(filepath.Join(dir, "engine.wasm.gz"), packed.Bytes())
}
