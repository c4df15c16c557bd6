package controlplane

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/virtwright/virtwright/test/filelock"
)

// assetsVariable names a folder with programs to use instead of building them, as
// controller-runtime's test tools have it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// cacheVariable overrides the folder in which built programs are kept.
const cacheVariable = "VIRTWRIGHT_CACHE"

// parts are the names under which the program is a part of a control plane.
var parts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}

// progressInterval is the pace of progress lines.
const progressInterval = 5 * time.Second

// Assets is the folder with etcd, kube-apiserver, kube-controller-manager and kubectl: the folder
// that KUBEBUILDER_ASSETS names, else one in the cache. The cache is filled at first use, under a
// lock, so that concurrent callers build once; that takes minutes, which progress lines show.
func Assets(ctx context.Context, progress io.Writer) (string, error) {
	if given := os.Getenv(assetsVariable); given != "" {
		dir, err := filepath.Abs(given)
		if err != nil {
			return "", fmt.Errorf("cannot use %s=%s: %w", assetsVariable, given, err)
		}
		return dir, checkAssets(dir)
	}
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	return Module{Name: "controlplane", Title: "the control plane", Source: source, Parts: parts, Stamps: kubernetesStamps}.Build(ctx, progress)
}

// CacheDir is the folder for everything that is worth keeping between runs: VIRTWRIGHT_CACHE, else
// "virtwright" in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the cache folder (%s sets it): %w", cacheVariable, err)
	}
	return filepath.Join(dir, "virtwright"), nil
}

// checkAssets tells what a given folder lacks.
func checkAssets(dir string) error {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if !exists(filepath.Join(dir, name)) {
			return fmt.Errorf("cannot use %s=%s: it has no %s", assetsVariable, dir, name)
		}
	}
	return nil
}

// sourceDir finds the module of the program: beside this file, else in the module of the working
// directory.
func sourceDir() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		if dir := filepath.Join(filepath.Dir(file), "bin"); exists(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the working directory: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if found := filepath.Join(dir, "test", "controlplane", "bin"); exists(filepath.Join(found, "go.mod")) {
			return found, nil
		}
	}
	return "", errors.New("cannot find test/controlplane/bin: run this inside a clone of virtwright")
}

// A Module is a Go module with a program, which may have several names.
type Module struct {
	// Name is that of the program's file, and of its folder in the cache.
	Name string
	// Package is the program's, such as "./virt-api"; empty means that of the folder of the module.
	Package string
	// Title is what messages call the program, such as "the control plane".
	Title string
	// Source is the folder of the module.
	Source string
	// Parts are the names that link to the program. Each is a different program to its users.
	Parts []string
	// ModFile is another file than go.mod, in the same folder; it ends in .mod.
	ModFile string
	// Env is added to the environment of go.
	Env []string
	// Stamps returns what the linker sets, as VARIABLE=VALUE. Its argument is the content of
	// go.mod.
	Stamps func(gomod []byte) []string
}

// Build returns the folder in the cache with the module's parts. It fills the folder at first use,
// under a lock, so that concurrent callers build once. Progress lines show how that proceeds.
func (m Module) Build(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	b := &build{Module: m, progress: progress}
	key, err := b.key(ctx)
	if err != nil {
		return "", err
	}
	b.target = filepath.Join(cache, m.Name, key)
	if b.built() {
		return b.target, nil
	}
	return b.target, b.once(ctx)
}

// build makes the program of a module in one folder of the cache.
type build struct {
	Module

	target   string
	progress io.Writer

	mu                   sync.Mutex
	downloaded, compiled int
	output               []string
}

// built tells whether the target is complete: its links are made last.
func (b *build) built() bool { return exists(filepath.Join(b.target, b.Parts[len(b.Parts)-1])) }

// key names what the program is made from. Equal keys mean equal programs.
func (b *build) key(ctx context.Context) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(b.Source, func(path string, file fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || file.IsDir() || ext != ".go" && ext != ".mod" && ext != ".sum" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(b.Source, path)
		fmt.Fprintf(hash, "%s %d\n%s", filepath.ToSlash(name), len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("cannot read the source of %s: %w", b.Title, err)
	}
	goEnv := b.command(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	version, err := goEnv.Output()
	if err != nil {
		return "", fmt.Errorf("cannot ask go for its version: %w", err)
	}
	fmt.Fprintf(hash, "%s%q", version, b.args("PROGRAM"))
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v((\d+)\.(\d+)\S*)`)

// kubernetesStamps are what a release of Kubernetes stamps into its programs.
func kubernetesStamps(gomod []byte) []string {
	m := kubernetesVersion.FindSubmatch(gomod)
	if m == nil {
		return nil
	}
	const stamp = "k8s.io/component-base/version."
	return []string{
		stamp + "gitVersion=v" + string(m[1]), stamp + "gitMajor=" + string(m[2]),
		stamp + "gitMinor=" + string(m[3]), stamp + "gitTreeState=clean",
	}
}

// args are the arguments of go build.
func (b *build) args(output string) []string {
	flags := []string{"-s", "-w"}
	if b.Stamps != nil {
		gomod, _ := os.ReadFile(filepath.Join(b.Source, cmp.Or(b.ModFile, "go.mod"))) // without a version the build still works
		for _, stamp := range b.Stamps(gomod) {
			flags = append(flags, "-X="+stamp)
		}
	}
	args := []string{"build", "-v", "-mod=readonly", "-buildvcs=false", "-ldflags=" + strings.Join(flags, " "), "-o", output}
	if b.ModFile != "" {
		args = append(args, "-modfile="+b.ModFile)
	}
	return append(args, cmp.Or(b.Package, "."))
}

func (b *build) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.Source
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), b.Env...)
	return cmd
}

// once builds unless another process has, or is at it.
func (b *build) once(ctx context.Context) error {
	if err := os.MkdirAll(b.target, 0o755); err != nil {
		return fmt.Errorf("cannot make the cache folder: %w", err)
	}
	lock, err := b.awaitLock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if b.built() {
		return nil
	}
	b.say("building %s; this happens once, takes minutes, and is kept in %s", b.Title, b.target)
	began := time.Now()
	if err := b.compile(ctx); err != nil {
		return err
	}
	b.say("built %s in %s", b.Title, since(began))
	return b.link()
}

// awaitLock takes the lock of the target, and says so when that means waiting.
func (b *build) awaitLock(ctx context.Context) (*os.File, error) {
	began, nextLine := time.Now(), time.Now()
	for {
		lock, err := filelock.Try(lockFile(b.target))
		if err != nil || lock != nil {
			return lock, err
		}
		if !time.Now().Before(nextLine) {
			b.say("waiting for another process that builds %s, %s", b.Title, since(began))
			nextLine = nextLine.Add(progressInterval)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for another process to build %s: %w", b.Title, ctx.Err())
		case <-time.After(10 * pollInterval):
		}
	}
}

// compile runs go build into a file beside the program and renames it.
func (b *build) compile(ctx context.Context) error {
	unfinished := filepath.Join(b.target, b.Name+".new")
	cmd := b.command(ctx, b.args(unfinished)...)
	output, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	wait, err := startBound(cmd)
	if err != nil {
		return fmt.Errorf("cannot build %s (is go on the PATH?): %w", b.Title, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.follow(output)
	}()
	stop := b.tick()
	err = wait()
	stop()
	write.Close()
	<-read
	if err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", b.Title, err, strings.Join(b.output, "\n"))
	}
	if err := os.Rename(unfinished, filepath.Join(b.target, b.Name)); err != nil {
		return fmt.Errorf("cannot name %s: %w", b.Title, err)
	}
	return nil
}

// follow counts the lines of go build -v: a module that is downloaded or a package that is
// compiled. It keeps the others, which say what went wrong.
func (b *build) follow(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		line := lines.Text()
		b.mu.Lock()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			b.downloaded++
		case !strings.HasPrefix(line, "#") && !strings.ContainsAny(line, " :"):
			b.compiled++
		default:
			b.output = append(b.output[max(0, len(b.output)-tailLines+1):], line)
		}
		b.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, output) // after a line too long to scan
}

// tick says at intervals how far the build is, until stop is called.
func (b *build) tick() (stop func()) {
	began, ticker, done := time.Now(), time.NewTicker(progressInterval), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				b.mu.Lock()
				b.say("building %s, %s: %d modules downloaded, %d packages compiled", b.Title, since(began), b.downloaded, b.compiled)
				b.mu.Unlock()
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}

// link gives the program the names of its parts.
func (b *build) link() error {
	for _, name := range b.Parts {
		path := filepath.Join(b.target, name)
		if err := os.Symlink(b.Name, path); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("cannot name %s %s: %w", b.Title, name, err)
		}
	}
	return nil
}

func (b *build) say(format string, args ...any) {
	var line bytes.Buffer
	fmt.Fprintf(&line, b.Name+": "+format+"\n", args...)
	_, _ = b.progress.Write(line.Bytes()) // a lost progress line is no reason to fail
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Second) }
