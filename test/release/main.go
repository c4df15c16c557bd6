// Command release writes the files of a release into a folder: archives of the CLI, images, the
// chart, bills of materials, licenses, the changelog, instructions and checksums. With a key, it
// also signs them.
//
//	go run ./test/release -o dist
//
// The same commit, Go release and Debian packages give the same bytes on every host of one
// architecture. Images are for the architecture of the host.
package main

import (
	"context"
	"crypto/ecdsa"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A platform is an operating system and an architecture, as Go names them.
type platform struct{ system, arch string }

// platforms are those of the CLI.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// imagePlatform is that of the images.
var imagePlatform = platform{"linux", runtime.GOARCH}

// file is the name of a file that belongs to one version and platform.
func (p platform) file(name, version string) string {
	return strings.Join([]string{name, version, p.system, p.arch}, "_")
}

// A release is what the files are made from.
type release struct {
	// source is the root folder of virtwright's source, dist the folder to write.
	source, dist string
	// version has no leading v. revision is the commit; it ends in modified if files differ from
	// it.
	version, revision string
	// time is when archived files were changed.
	time      time.Time
	platforms []platform
	// digests are those of the manifests of images, by the name of the program.
	digests map[string]string
	// licenses is the text with the licenses of all modules.
	licenses []byte
	// key signs the release, if there is one.
	key *ecdsa.PrivateKey
}

// modified ends the revision if files differ from the commit.
const modified = "-modified"

// A step writes some of the files.
type step struct {
	name string
	do   func(*release, context.Context) error
}

// steps make a release, in this order.
var steps = []step{
	{"images", (*release).writeImages},
	{"licenses", (*release).writeLicenses},
	{"CLI", (*release).writeCLI},
	{"chart", (*release).writeChart},
	{"changelog and instructions", (*release).writePages},
	{"checksums", (*release).writeChecksums},
}

func run(ctx context.Context, args []string) error {
	r := &release{platforms: platforms, digests: map[string]string{}}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.source, "C", ".", "the root `folder` of virtwright's source")
	flags.StringVar(&r.dist, "o", "dist", "the `folder` to write")
	flags.StringVar(&r.version, "version", "", "the version (default: the chart's)")
	key := flags.String("key", "", "the `file` with the private key that signs the release (default: no signatures)")
	host := flags.Bool("host", false, "build the CLI for this host only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *host {
		r.platforms = []platform{{runtime.GOOS, runtime.GOARCH}}
	}
	if err := r.identify(ctx); err != nil {
		return err
	}
	if *key != "" {
		var err error
		if r.key, err = readKey(*key); err != nil {
			return err
		}
		if err := r.checkSource(); err != nil {
			return err
		}
	}
	if err := r.clean(); err != nil {
		return err
	}
	for _, step := range steps {
		began := time.Now()
		if err := step.do(r, ctx); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%s: %s\n", step.name, time.Since(began).Round(100*time.Millisecond))
	}
	if r.key == nil {
		fmt.Fprintln(os.Stdout, "signatures and provenance: not written, because no key was given (make release KEY=FILE)")
		return nil
	}
	return r.sign()
}

// identify finds the version, the commit and its time.
func (r *release) identify(ctx context.Context) error {
	if r.version == "" {
		content, err := os.ReadFile(filepath.Join(r.source, chartFolder, "Chart.yaml"))
		if err != nil {
			return fmt.Errorf("cannot read the version: %w", err)
		}
		var chart struct{ Version string }
		if err := yaml.Unmarshal(content, &chart); err != nil {
			return fmt.Errorf("cannot read the version: %w", err)
		}
		r.version = chart.Version
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		var err error
		if seconds, err = r.output(ctx, "git", "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("cannot find the time of the commit (or set SOURCE_DATE_EPOCH): %w", err)
		}
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("cannot use the time of the commit: %w", err)
	}
	r.time = time.Unix(epoch, 0).UTC()
	if r.revision, err = r.output(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return nil //nolint:nilerr // an archive of the source has no commit
	}
	if changes, err := r.output(ctx, "git", "status", "--porcelain"); err != nil || changes != "" {
		r.revision += modified
	}
	return nil
}

// clean removes files of an earlier release, which may have another version.
func (r *release) clean() error {
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		return fmt.Errorf("cannot make the folder of the release: %w", err)
	}
	for _, pattern := range []string{"virtwright*", signatureFile, provenanceFile} {
		if err := removeAll(filepath.Join(r.dist, pattern)); err != nil {
			return err
		}
	}
	left, err := os.ReadDir(r.dist)
	if err != nil {
		return fmt.Errorf("cannot list the folder of the release: %w", err)
	}
	for _, entry := range left {
		if entry.Type().IsRegular() && !slices.Contains(pages, entry.Name()) {
			return fmt.Errorf("%s is not of a release: move it elsewhere, because the checksums and the signature cover all files of the folder", filepath.Join(r.dist, entry.Name()))
		}
	}
	return nil
}

// pages are the files of a release whose names have no version.
var pages = []string{checksumsFile, licensesFile, "CHANGELOG.md", "LICENSE", "README.md", "verify.sh"}

// removeAll removes the files and folders that match the pattern.
func removeAll(pattern string) error {
	old, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("cannot list earlier files: %w", err)
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot remove an earlier file: %w", err)
		}
	}
	return nil
}

// output is what a program prints in the source's folder.
func (r *release) output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = r.source
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s %s: %w\n%s", program, strings.Join(args, " "), err, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.dist, name), content, 0o644); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}
