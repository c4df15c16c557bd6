package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/kind/image"
	"github.com/virtwright/virtwright/test/kind/sbom"
)

// program is the CLI, plugin its name as a plugin of kubectl.
const (
	program = "virtwright"
	plugin  = "kubectl-virtwright"
	// playground is the folder of the playground, which the CLI has.
	playground = "./cmd/virtwright/internal/playground"
)

// writeImages writes the images of manager and launcher, each with its bill of materials.
func (r *release) writeImages(ctx context.Context) error {
	for _, name := range []string{"manager", "launcher"} {
		archive, err := filepath.Abs(filepath.Join(r.dist, imagePlatform.file(program+"-"+name, r.version)+".tar"))
		if err != nil {
			return err
		}
		said, err := r.output(ctx, "go", "run", "./test/kind/cmd/image", name, "-o", archive, "-tag", r.version)
		if err != nil {
			return err
		}
		_, digest, _ := strings.Cut(said, "@") // NAME@DIGEST in ARCHIVE
		r.digests[name], _, _ = strings.Cut(digest, " ")
	}
	return nil
}

// writeCLI writes an archive of the CLI for each platform, with its bill of materials.
func (r *release) writeCLI(ctx context.Context) error {
	if err := r.buildPlayground(ctx); err != nil {
		return err
	}
	for _, p := range r.platforms {
		if err := r.writeArchive(ctx, p); err != nil {
			return fmt.Errorf("cannot make the archive for %s on %s: %w", p.system, p.arch, err)
		}
	}
	return nil
}

// buildPlayground writes the files that the CLI embeds.
func (r *release) buildPlayground(ctx context.Context) error {
	const files = playground + "/site/files"
	if err := removeAll(filepath.Join(r.source, files, "[^.]*")); err != nil {
		return err
	}
	_, err := r.output(ctx, "go", "run", playground+"/build", files, r.stamp())
	return err
}

func (r *release) writeArchive(ctx context.Context, p platform) error {
	built, err := r.build(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(built)) }()
	name := p.file(program, r.version)
	files := []image.File{
		{Path: filepath.Base(built), Mode: 0o755, Source: built},
		{Path: "LICENSE", Source: filepath.Join(r.source, "LICENSE")},
		{Path: licensesFile, Content: r.licenses},
	}
	file, pack := name+".zip", zipped
	if p.system != "windows" {
		file, pack = name+".tar.gz", tarred
		files = append(files, image.File{Path: plugin, Link: program})
	}
	content, err := pack(r.below(name, files))
	if err != nil {
		return err
	}
	if err := r.write(file, content); err != nil {
		return err
	}
	bill, err := sbom.Of(built, "", nil)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	return bill.Write(filepath.Join(r.dist, name+".spdx.json"), program, r.version, "sha256:"+hex.EncodeToString(sum[:]))
}

// build builds the CLI in a temporary folder. The flags keep out of it what does not come from the
// source: paths, the state of git, the C library of the host.
func (r *release) build(ctx context.Context, p platform) (string, error) {
	dir, err := os.MkdirTemp("", "virtwright-release-")
	if err != nil {
		return "", fmt.Errorf("cannot make a folder to build in: %w", err)
	}
	built := filepath.Join(dir, program)
	if p.system == "windows" {
		built += ".exe"
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-tags=playground",
		"-ldflags=-s -w -buildid= "+r.stamp(), "-o", built, "./cmd/"+program)
	cmd.Dir, cmd.Env = r.source, p.environment()
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", program, err, strings.TrimSpace(string(output)))
	}
	return built, nil
}

// stamp returns the flags of the linker that set the version.
func (r *release) stamp() string {
	const set = "-X github.com/virtwright/virtwright/cmd/virtwright/internal/version."
	return set + "Release=v" + r.version + " " + set + "Revision=" + r.revision + " " + set + "Committed=" + r.time.Format(time.RFC3339)
}

// environment is that of a build for the platform.
func (p platform) environment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+p.system, "GOARCH="+p.arch)
}
