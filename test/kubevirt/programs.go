package kubevirt

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/virtwright/virtwright/test/controlplane"
)

// Programs of KubeVirt.
const (
	virtAPI        = "virt-api"
	virtController = "virt-controller"
	virtHandler    = "virt-handler" // simulated
	virtctl        = "virtctl"
	objectWriter   = "kubevirt-objects"
)

// kubevirtVersion is the line of go.mod that has the version of KubeVirt.
var kubevirtVersion = regexp.MustCompile(`(?m)^require kubevirt\.io/kubevirt (v\S+)$`)

// versionVariable names another version of KubeVirt that VERSION.mod describes, such as v1.8. The
// default is that of go.mod.
const versionVariable = "VIRTWRIGHT_KUBEVIRT"

// modFile returns the file with the versions of KubeVirt's modules.
func modFile() string {
	if version := os.Getenv(versionVariable); version != "" {
		return version + ".mod"
	}
	return "go.mod"
}

// IsOtherVersion reports whether KubeVirt is not that of go.mod.
func IsOtherVersion() bool { return os.Getenv(versionVariable) != "" }

// build returns the paths of KubeVirt's programs, by name. They are built at first use, which
// takes minutes; progress lines show that.
func build(ctx context.Context, progress io.Writer) (map[string]string, error) {
	module := controlplane.Module{
		Name: "kubevirt", Title: "KubeVirt", Source: source(),
		ModFile: modFile(),
		Parts:   []string{virtController, virtctl, objectWriter},
		Env:     []string{"CGO_ENABLED=0"}, // else it needs the headers of libvirt and libnbd
		Stamps: func(gomod []byte) []string {
			return []string{"kubevirt.io/client-go/version.gitVersion=" + version(gomod)}
		},
	}
	api := module
	api.Name, api.Title, api.Package, api.Parts = virtAPI, virtAPI, "./"+virtAPI, []string{virtAPI}
	paths := map[string]string{}
	for _, m := range []controlplane.Module{module, api} {
		folder, err := m.Build(ctx, progress)
		if err != nil {
			return nil, err
		}
		for _, name := range m.Parts {
			paths[name] = filepath.Join(folder, name)
		}
	}
	return paths, nil
}

// source is the folder of the module with KubeVirt's programs.
func source() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "bin")
}

// version is that of KubeVirt in a go.mod, empty where it has none.
func version(gomod []byte) string {
	if m := kubevirtVersion.FindSubmatch(gomod); m != nil {
		return string(m[1])
	}
	return ""
}
