// Command image builds virtwright-manager and writes its container image into
// an archive for docker load, ctr images import or kind load image-archive:
//
//	go run ./test/kind/cmd/image -o bin/virtwright-manager.tar
//
// The image is nothing but the program, run by a user without rights. The same
// source and Go release give the same bytes on every machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/kind/image"
)

const (
	program    = "virtwright-manager"
	repository = "docker.io/virtwright/" + program
	// nobody is the user of images that need no rights at all.
	nobody = "65532:65532"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	source := flags.String("C", ".", "the root `folder` of virtwright's source")
	archive := flags.String("o", "bin/"+program+".tar", "the `file` to write")
	tag := flags.String("tag", "", "the image's tag (the chart's appVersion)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tag == "" {
		version, err := appVersion(*source)
		if err != nil {
			return err
		}
		*tag = version
	}
	dir, err := os.MkdirTemp("", "virtwright-image-")
	if err != nil {
		return fmt.Errorf("cannot make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, *source, dir); err != nil {
		return err
	}
	name := repository + ":" + *tag
	digest, err := write(*archive, manager(name, filepath.Join(dir, program)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s@%s in %s\n", name, digest, *archive)
	return nil
}

// appVersion is what the chart runs by default.
func appVersion(source string) (string, error) {
	content, err := os.ReadFile(filepath.Join(source, "charts", "virtwright", "Chart.yaml"))
	if err != nil {
		return "", fmt.Errorf("cannot tell the version: %w", err)
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		return "", fmt.Errorf("cannot tell the version: %w", err)
	}
	return chart.AppVersion, nil
}

// build builds the program into the folder. The flags keep out of it what does
// not come from the source: paths, the state of git, the C library of the machine.
func build(ctx context.Context, source, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -buildid=", "-o", dir, "./cmd/"+program)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// manager is the image with the program at path.
func manager(name, path string) image.Image {
	return image.Image{
		Names:  []string{name},
		Config: image.Config{User: nobody, Entrypoint: []string{"/" + program}},
		Layers: []image.Layer{image.Files(image.File{Path: program, Mode: 0o755, Source: path})},
	}
}

// write writes the archive beside its place first, so that nobody finds half
// of it, and returns the image's digest.
func write(path string, of image.Image) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("cannot make the archive's folder: %w", err)
	}
	file, err := os.Create(path + ".new")
	if err != nil {
		return "", fmt.Errorf("cannot make the archive: %w", err)
	}
	defer file.Close()
	digests, err := image.Write(file, of)
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("cannot write the archive: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return "", fmt.Errorf("cannot name the archive: %w", err)
	}
	return digests[0], nil
}
