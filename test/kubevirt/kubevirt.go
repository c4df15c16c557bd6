package kubevirt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/installation"
)

// namespace is that of KubeVirt.
const namespace = "kubevirt"

// configuration is KubeVirt's, with the feature gates that stories use.
const configuration = `
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec:
  configuration:
    vmRolloutStrategy: LiveUpdate
    developerConfiguration:
      featureGates: [Snapshot, VMExport, HostDisk, ExpandDisks, DeclarativeHotplugVolumes]
  workloadUpdateStrategy:
    workloadUpdateMethods: [LiveMigrate]
`

// deployed is a status without which KubeVirt ignores its configuration.
const deployed = `{"status":{"phase":"Deployed","defaultArchitecture":"amd64"}}`

// folderVariable names a folder that keeps data and logs.
const folderVariable = "VIRTWRIGHT_KUBEVIRT_DIR"

// Options say what runs.
type Options struct {
	// Alone leaves virtwright out.
	Alone bool
	// Chart are more values of the chart, as KEY=VALUE.
	Chart []string
}

// A Cluster has KubeVirt and, unless it is alone, virtwright.
type Cluster struct {
	*installation.Installation

	// Objects is an administrator's client of VMs, VMIs, pods and unstructured objects.
	Objects client.Client
	// Manager is virtwright's; nil if KubeVirt is alone.
	Manager *installation.Replica

	// programs are the paths of KubeVirt's programs, by name.
	programs map[string]string
	// generated is the folder with the objects and the certificates of KubeVirt.
	generated string
}

// Start starts a cluster that ends with the test. With -short, it skips the test. If the test
// fails, it shows the ends of the logs, which are in Dir. VIRTWRIGHT_KUBEVIRT_DIR names a folder to
// keep.
func Start(t *testing.T, options Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs KubeVirt")
	}
	programs, err := build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	installation.Prepare()
	c := &Cluster{programs: programs, generated: t.TempDir()}
	var generating errgroup.Group
	generating.Go(c.generate)
	c.Installation = installation.NewWith(t, controlplane.Options{Audit: true, Dir: os.Getenv(folderVariable)})
	t.Cleanup(c.showLogs)
	log.SetLogger(c.logger("clients"))
	if err := errors.Join(generating.Wait(), c.install()); err != nil {
		t.Fatal(err)
	}
	serving := c.startPrograms()
	if !options.Alone {
		c.installVirtwright(options.Chart)
	}
	if err := errors.Join(serving(), c.register()); err != nil {
		t.Fatal(err)
	}
	return c
}

// generate writes KubeVirt's objects.
func (c *Cluster) generate() error {
	if out, err := exec.Command(c.programs[objectWriter], "-o", c.generated).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot generate KubeVirt's objects: %w: %s", err, out)
	}
	return nil
}

// Version is that of KubeVirt, such as v1.9.0.
func Version() string {
	gomod, _ := os.ReadFile(filepath.Join(source(), modFile())) // the build reads it, too
	return version(gomod)
}

// FeatureGates returns which of KubeVirt's feature gates are enabled by default.
func (c *Cluster) FeatureGates(names []string) (map[string]bool, error) {
	out, err := exec.CommandContext(c.Context(), c.programs[objectWriter], "-gates", strings.Join(names, ",")).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot print the feature gates of KubeVirt: %w", err)
	}
	gates := map[string]bool{}
	return gates, json.Unmarshal(out, &gates)
}

// VirtctlPath is the path of virtctl.
func (c *Cluster) VirtctlPath() string { return c.programs[virtctl] }

// Virtctl runs virtctl as the administrator, and returns what it printed.
func (c *Cluster) Virtctl(args ...string) (string, error) {
	out, err := exec.CommandContext(c.Context(), c.VirtctlPath(), append(args, "--kubeconfig", c.Kubeconfig())...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("virtctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// installVirtwright installs virtwright by its chart, with one replica.
func (c *Cluster) installVirtwright(values []string) {
	c.Helper()
	args := []string{installation.Release, installation.Chart(), "--set", "mode=addon,certs.mode=self-signed"}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	c.MustHelm("install", args...)
	c.Manager = c.Start(installation.Release + "-0")
	c.Eventually("virtwright serves", c.Manager.Serves)
}

// showLogs shows the ends of KubeVirt's logs if the test failed. Those of virtwright are shown with
// its replica.
func (c *Cluster) showLogs() {
	if !c.Failed() {
		return
	}
	for _, name := range []string{virtAPI, virtController, "nodes"} {
		content, _ := os.ReadFile(filepath.Join(c.Dir(), name+".log")) // none if it did not start
		c.Logf("end of the log of %s:\n%s", name, content[max(0, len(content)-8<<10):])
	}
}
