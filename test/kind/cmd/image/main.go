// Command image writes a container image into an archive for docker load, ctr images import or kind
// load image-archive:
//
//	go run ./test/kind/cmd/image manager
//	go run ./test/kind/cmd/image launcher -o bin/virtwright-launcher.tar
//	go run ./test/kind/cmd/image guest
//
// The manager's image is only the program. The launcher's has the program, QEMU and libvirt of
// Debian. The guest's has the kernel and the disk of the guest that the tests boot. Beside the
// archives of manager and launcher, a file .spdx.json lists packages and Go modules. The same
// source, Go release and packages give the same bytes on every host.
package main

import (
	"context"
	"errors"
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
	"github.com/virtwright/virtwright/test/kind/sbom"
)

const (
	registry = "docker.io/virtwright/"
	manager  = "virtwright-manager"
	launcher = "virtwright-launcher"
	// unprivileged is the user of images that need no permissions.
	unprivileged = "65532:65532"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	source, archive, tag string
	fresh                bool
}

// An artifact is an image, and its content where that is known.
type artifact struct {
	image image.Image
	bill  *sbom.Document
}

// kinds make the images that the command line names. The folder is for what they build.
var kinds = map[string]func(ctx context.Context, o options, dir string) (artifact, error){
	"manager": managerImage, "launcher": launcherImage, "guest": guestImage,
}

func run(ctx context.Context, args []string, out io.Writer) error {
	kind := ""
	if len(args) > 0 {
		kind, args = args[0], args[1:]
	}
	create := kinds[kind]
	if create == nil {
		return errors.New("usage: image manager|launcher|guest [-C folder] [-o file] [-tag tag] [-fresh]")
	}
	var o options
	flags := flag.NewFlagSet("image "+kind, flag.ContinueOnError)
	flags.StringVar(&o.source, "C", ".", "the root `folder` of virtwright's source")
	flags.StringVar(&o.archive, "o", "bin/virtwright-"+kind+".tar", "the `file` to write")
	flags.StringVar(&o.tag, "tag", "", "the image's tag (the chart's appVersion; of the guest: test)")
	flags.BoolVar(&o.fresh, "fresh", false, "download Debian's packages again (launcher)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.complete(kind); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "virtwright-image-")
	if err != nil {
		return fmt.Errorf("cannot make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made, err := create(ctx, o, dir)
	if err != nil {
		return err
	}
	digest, err := write(o.archive, made.image)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s@%s in %s\n", made.image.Names[0], digest, o.archive)
	if made.bill == nil {
		return nil
	}
	return made.bill.Write(strings.TrimSuffix(o.archive, ".tar")+".spdx.json", made.image.Names[0], digest, digest)
}

// complete sets the tag where the command line names none.
func (o *options) complete(kind string) error {
	if o.tag != "" {
		return nil
	}
	if o.tag = guestTag; kind == "guest" {
		return nil
	}
	version, err := appVersion(o.source)
	o.tag = version
	return err
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

// build builds a program into the folder. The flags keep out of it what does not come from the
// source: paths, the state of git, the C library of the host.
func build(ctx context.Context, source, dir, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags=-s -w -buildid=", "-o", dir, "./cmd/"+program)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

func managerImage(ctx context.Context, o options, dir string) (artifact, error) {
	if err := build(ctx, o.source, dir, manager); err != nil {
		return artifact{}, err
	}
	program := filepath.Join(dir, manager)
	bill, err := sbom.Of(program, "", nil)
	return artifact{image: ofManager(registry+manager+":"+o.tag, program), bill: bill}, err
}

// ofManager is the image with the program at path.
func ofManager(name, path string) image.Image {
	return image.Image{
		Names:  []string{name},
		Config: image.Config{User: unprivileged, Entrypoint: []string{"/" + manager}},
		Layers: []image.Layer{image.Files(image.File{Path: manager, Mode: 0o755, Source: path})},
	}
}

// write writes a temporary archive and renames it, so that no reader finds half of one, and returns
// the image's digest.
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
