package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/kind/cache"
)

// A program is built from a Go module of its own, or from a folder of ours.
type program struct {
	name string
	// module is the folder with its source, relative to test/kind.
	module string
	// main is its main package.
	main string
}

var (
	kubernetes         = program{name: "kubernetes", module: "bin/kubernetes", main: "."}
	coredns            = program{name: "coredns", module: "bin/coredns", main: "."}
	pause              = program{name: "pause", module: "bin/pause", main: "."}
	runc               = program{name: "runc", module: "bin/runc", main: "."}
	certManager        = program{name: "certmanager", module: "bin/certmanager", main: "."}
	certManagerWebhook = program{name: "webhook", module: "bin/certmanager-webhook", main: "."}
	kind               = program{name: "kind", module: "tool", main: "sigs.k8s.io/kind"}
	helm               = program{name: "helm", module: "../chart/tool", main: "helm.sh/helm/v3/cmd/helm"}
)

// program builds a program unless the cache has it, and returns its path.
func (w *workshop) program(ctx context.Context, p program) (string, error) {
	files, err := w.sources(p)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(w.source, p.module)
	version, err := command{path: "go", args: []string{"env", "GOVERSION", "GOARCH"}, dir: dir}.run(ctx)
	if err != nil {
		return "", err
	}
	flags := []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=" + strings.Join(w.linkerFlags(p), " ")}
	key := cache.Key(append(files, version, p.main, strings.Join(flags, " "))...)
	kept, err := w.keep("programs", p.name+"-"+key, func(target string) error {
		began := time.Now()
		w.say("building %s; this happens once", p.name)
		args := append(append([]string{"build"}, flags...), "-o", filepath.Join(target, p.name), p.main)
		env := []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
		if _, err := (command{path: "go", args: args, dir: dir, env: env}).run(ctx); err != nil {
			return err
		}
		w.say("built %s in %s", p.name, since(began))
		return nil
	})
	return filepath.Join(kept, p.name), err
}

// sources are the contents of the files that a program is built from.
func (w *workshop) sources(p program) ([]string, error) {
	dir := filepath.Join(w.source, p.module)
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the source of %s: %w", p.name, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	names = append(names, filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum"))
	var contents []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a program of ours needs no module of its own
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the source of %s: %w", p.name, err)
		}
		contents = append(contents, filepath.Base(name), string(content))
	}
	return contents, nil
}

// linkerFlags stamp into the parts of Kubernetes what its releases have there.
func (w *workshop) linkerFlags(p program) []string {
	flags := []string{"-s", "-w"}
	if p != kubernetes {
		return flags
	}
	version, _ := w.requires(kubernetes, "k8s.io/kubernetes") // without one the build still works
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) < 3 {
		return flags
	}
	const stamp = "-X=k8s.io/component-base/version."
	return append(flags, stamp+"gitVersion="+version, stamp+"gitMajor="+numbers[0], stamp+"gitMinor="+numbers[1], stamp+"gitTreeState=clean")
}

// requires is the version of a module that a program is built with.
func (w *workshop) requires(p program, module string) (string, error) {
	content, err := os.ReadFile(filepath.Join(w.source, p.module, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("cannot read which modules %s requires: %w", p.name, err)
	}
	line := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v\S+)`)
	found := line.FindSubmatch(content)
	if found == nil {
		return "", fmt.Errorf("cannot find the version of %s: %s does not require it", module, p.name)
	}
	return string(found[1]), nil
}

// kubectl is the one of the node's release, or the machine's own where nodes are not built here.
func (w *workshop) kubectl(ctx context.Context) (string, error) {
	if os.Getenv(imageVariable) == "" {
		return w.program(ctx, kubernetes)
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("cannot find kubectl, which is not built here when %s is set: %w", imageVariable, err)
	}
	return path, nil
}
