package cluster

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/virtwright/virtwright/test/kind/cache"
	"github.com/virtwright/virtwright/test/kind/image"
)

const (
	// nodeRepository is the name of node images.
	nodeRepository = "virtwright/kind-node"
	// programsDir is where images have Kubernetes' programs.
	programsDir = "usr/local/bin/"
)

// nodeFiles are the files of a node that are ours.
//
//go:embed all:node
var nodeFiles embed.FS

// masked are units of Debian that have no place in a container, or would change settings that are
// the whole machine's.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
	"console-getty.service", "getty.target", "getty@tty1.service", "systemd-logind.service", "systemd-resolved.service", "remote-fs.target",
	"dev-hugepages.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-modules-load.service",
	"systemd-sysctl.service", "systemd-udevd.service", "systemd-udev-trigger.service",
}

// parts are what a node image is made of.
type parts struct {
	kubernetes, coredns, pause, userland string
	// version is that of Kubernetes.
	version string
	// names are the images that kubeadm asks for, by their last word.
	names map[string]string
}

// nodeImage builds the node image unless the engine has it.
func (w *workshop) nodeImage(ctx context.Context, on engine) (string, error) {
	p, err := w.parts(ctx)
	if err != nil {
		return "", err
	}
	files, err := p.files()
	if err != nil {
		return "", err
	}
	name := nodeRepository + ":" + cache.Key(p.kubernetes, p.coredns, p.pause, p.userland, fmt.Sprint(files))
	if have, err := on.docker(ctx, "images", "--quiet", name); err != nil || strings.TrimSpace(have) != "" {
		return name, err
	}
	began := time.Now()
	w.say("building the node image %s", name)
	bare := image.Image{
		Names: []string{nodeRepository + ":bare"},
		Config: image.Config{
			Env:        []string{"container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"}, StopSignal: "SIGRTMIN+3",
		},
		Layers: []image.Layer{image.Archive(filepath.Join(p.userland, nodeLayer)), image.Files(files...)},
	}
	if _, err := on.dockerWith(ctx, archiveOf(bare), "load"); err != nil {
		return "", err
	}
	if err := fill(ctx, on, p.images(), name); err != nil {
		return "", err
	}
	w.say("built the node image in %s", since(began))
	return name, dropOthers(ctx, on, name)
}

// parts builds what a node image is made of.
func (w *workshop) parts(ctx context.Context) (p parts, err error) {
	for _, part := range []struct {
		program program
		path    *string
	}{{kubernetes, &p.kubernetes}, {coredns, &p.coredns}, {pause, &p.pause}} {
		if *part.path, err = w.program(ctx, part.program); err != nil {
			return p, err
		}
	}
	if p.userland, err = w.userland(ctx); err != nil {
		return p, err
	}
	if p.version, err = w.requires(kubernetes, "k8s.io/kubernetes"); err != nil {
		return p, err
	}
	p.names, err = imageNames(ctx, p.kubernetes, p.version)
	return p, err
}

// imageNames asks kubeadm for the names of the images that it will ask for.
func imageNames(ctx context.Context, kubernetes, version string) (map[string]string, error) {
	list, err := command{path: kubernetes, args: []string{"kubeadm", "config", "images", "list", "--kubernetes-version", version}}.run(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for name := range strings.FieldsSeq(list) {
		short, _, _ := strings.Cut(path.Base(name), ":")
		names[short] = name
	}
	return names, nil
}

// files are the layer of a node above Debian: our files and Kubernetes.
func (p parts) files() ([]image.File, error) {
	files := []image.File{
		{Path: "kind/version", Content: []byte(p.version)},
		{Path: "usr/bin/kubernetes", Mode: 0o755, Source: p.kubernetes},
		{Path: "etc/systemd/system/default.target", Link: "/lib/systemd/system/multi-user.target"},
		{Path: "etc/systemd/system/multi-user.target.wants/kubelet.service", Link: "../kubelet.service"},
	}
	for _, name := range []string{"kubeadm", "kubectl", "kubelet"} {
		files = append(files, image.File{Path: "usr/bin/" + name, Link: "kubernetes"})
	}
	for _, unit := range masked {
		files = append(files, image.File{Path: "etc/systemd/system/" + unit, Link: "/dev/null"})
	}
	err := fs.WalkDir(nodeFiles, "node", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := nodeFiles.ReadFile(name)
		if err != nil {
			return err
		}
		file := image.File{Path: strings.TrimPrefix(name, "node/")}
		file.Content = []byte(strings.ReplaceAll(string(content), "@PAUSE@", p.names["pause"]))
		if strings.HasPrefix(file.Path, programsDir) {
			file.Mode = 0o755
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the files of a node: %w", err)
	}
	return files, nil
}

// images are what runs on a node. Kubernetes' servers and etcd are one image of many names;
// kube-proxy adds the programs that it runs.
func (p parts) images() []image.Image {
	servers := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
	program := []image.File{{Path: programsDir + "kubernetes", Mode: 0o755, Source: p.kubernetes}}
	var names []string
	for _, name := range append(slices.Clone(servers), "kube-proxy") {
		program = append(program, image.File{Path: programsDir + name, Link: "kubernetes"})
	}
	for _, name := range servers {
		names = append(names, p.names[name])
	}
	config := image.Config{Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin"}}
	base := image.Files(program...)
	return []image.Image{
		{Names: names, Config: config, Layers: []image.Layer{base}},
		{Names: []string{p.names["kube-proxy"]}, Config: config, Layers: []image.Layer{base, image.Archive(filepath.Join(p.userland, proxyLayer))}},
		single(p.names["coredns"], p.coredns, image.Config{Entrypoint: []string{"/coredns"}}),
		single(p.names["pause"], p.pause, image.Config{Entrypoint: []string{"/pause"}}),
	}
}

// single is an image of one program at its root.
func single(name, program string, config image.Config) image.Image {
	file := image.File{Path: filepath.Base(program), Mode: 0o755, Source: program}
	return image.Image{Names: []string{name}, Config: config, Layers: []image.Layer{image.Files(file)}}
}

// archiveOf writes an archive of images.
func archiveOf(images ...image.Image) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := image.Write(w, images...)
		return err
	}
}

// fill makes the node image from the bare one: it puts the images into the store of a containerd
// that runs in a container of it. They are unpacked only by a node, since that layers file systems
// and a container is one already.
func fill(ctx context.Context, on engine, images []image.Image, name string) error {
	const container = "virtwright-kind-node-build"
	drop := func(ctx context.Context) { _, _ = on.docker(ctx, "rm", "--force", "--volumes", container) } // says that there is none
	drop(ctx)
	defer drop(context.WithoutCancel(ctx))
	if _, err := on.docker(ctx, "run", "--detach", "--name", container, "--network", "none", "--privileged", "--tmpfs", "/run",
		"--entrypoint", "sleep", nodeRepository+":bare", "600"); err != nil {
		return err
	}
	if _, err := on.docker(ctx, "exec", "--detach", "--privileged", container, "containerd"); err != nil {
		return err
	}
	if err := awaitContainerd(ctx, on, container); err != nil {
		return err
	}
	load := []string{"exec", "--interactive", "--privileged", container, "ctr", "--namespace", "k8s.io", "images", "import", "--no-unpack", "--all-platforms", "--digests", "-"}
	if _, err := on.dockerWith(ctx, archiveOf(images...), load...); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"exec", "--privileged", container, "sh", "-c", "kill $(pidof containerd) && while pidof containerd; do sleep 0.1; done"},
		{"commit", "--change", `ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]`, container, name},
	} {
		if _, err := on.docker(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func awaitContainerd(ctx context.Context, on engine, container string) error {
	ctx, cancel := context.WithTimeout(ctx, daemonTimeout)
	defer cancel()
	for {
		_, err := on.docker(ctx, "exec", "--privileged", container, "ctr", "version")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for containerd in %s: %w", container, err)
		case <-time.After(pollInterval):
		}
	}
}

// dropOthers deletes the node images of other sources, unless a cluster runs one: they are large.
func dropOthers(ctx context.Context, on engine, name string) error {
	list, err := on.docker(ctx, "images", "--format", "{{.Repository}}:{{.Tag}}", nodeRepository)
	if err != nil {
		return err
	}
	for other := range strings.FieldsSeq(list) {
		if other != name {
			_, _ = on.docker(ctx, "rmi", other) // rejected for one that is in use
		}
	}
	return nil
}
