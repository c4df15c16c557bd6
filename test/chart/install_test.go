package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

// These tests install one replica.
type installed struct {
	*installation.Installation

	replica *installation.Replica
}

// pod is the manager's name in its metrics and events.
const pod = "virtwright-0"

const sparse = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: default, labels: {size: small}},
spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`

// applied is a VM that a user applies server-side.
const applied = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: default, labels: {applied: "yes"}}}`

// boot is a VM with a disk whose name differs from its volume's.
const boot = `{apiVersion: kubevirt.io/v1alpha2, kind: VirtualMachine, metadata: {name: boot, namespace: default, labels: {size: small}},
spec: {runStrategy: Halted, template: {spec: {
  domain: {devices: {disks: [{name: boot, volumeName: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`

// in is a manifest of a name in another version than v1.
func in(version, manifest, name string) string {
	return fmt.Sprintf(strings.Replace(manifest, "kubevirt.io/v1,", "kubevirt.io/"+version+",", 1), name)
}

const small = `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: small, namespace: default}
spec:
  match: {labels: {matchLabels: {size: small}}}
  defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}
`

// A cluster takes the chart, the manager does its work with the rights it is given, an upgrade
// keeps what people made, and nothing blocks once it is gone.
func TestInstall(t *testing.T) {
	i := &installed{Installation: installation.New(t)}
	_, stderr, err := i.Helm("install", release, folder)
	if err == nil || !strings.Contains(stderr, "cert-manager is not installed in this cluster") || !strings.Contains(stderr, "certs.mode=self-signed") {
		t.Errorf("without cert-manager: %v %s", err, stderr)
	}
	i.MustHelm("install", selfSigned("true")...)
	i.run()
	i.Must(small, "apply", "-f", "-")
	i.Eventually("the preset acts", func() error {
		_ = i.Try(fmt.Sprintf(sparse, "web"), "create", "-f", "-")
		if out := i.Must("", "get", "vm", "web", "-o", "jsonpath={.spec.template.spec.domain.memory.guest}"); out != "1Gi" {
			i.Must("", "delete", "vm", "web", "--ignore-not-found")
			return fmt.Errorf("memory is %q", out)
		}
		return nil
	})
	i.Eventually("the preset has a status", func() error {
		return i.Is("vmpreset/small", `{.status.conditions[?(@.type=="Ready")].status}`, "True")
	})
	if err := i.Try("", "patch", "vm", "web", "--type=merge", "-p", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`); err == nil || !strings.Contains(err.Error(), "owner-references") {
		t.Errorf("an edit of owner references: %v", err)
	}
	i.Must("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	i.followNotes()
	i.put("start")
	i.Eventually("start", func() error { return i.Is("vm/web", "{.status.printableStatus}", "Starting") })
	i.put("stop")
	i.Eventually("stop", func() error { return i.Is("vm/web", "{.status.printableStatus}", "Stopped") })
	i.Eventually("v1alpha2 is served", func() error {
		return i.Try("", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/default/virtualmachines/web")
	})
	i.selfTest()
	i.isConfined(true)

	i.MustHelm("upgrade", append(selfSigned("true"), "--set", "presetConflicts=reject", "--set", "trustedUsers={ada}")...)
	if err := i.Is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		t.Error(err)
	}
	i.Eventually("the policy knows who is trusted now", func() error {
		return i.Try("", adoptAsAda...)
	})
	i.selfTest()
	if strings.Contains(i.replica.Log.String(), "forbidden") {
		t.Errorf("the manager lacks rights:\n%s", i.replica.Log.String())
	}

	i.goes()
	i.comesBack()
}

// followNotes does what Helm's notes say: it creates a preset, and a VM of a few lines that the
// preset completes.
func (i *installed) followNotes() {
	i.Helper()
	i.Must("", "delete", "vmpreset/small")
	notes, stderr, err := i.Helm("get", "notes", release)
	if err != nil {
		i.Fatalf("cannot read the notes: %v: %s", err, stderr)
	}
	command := regexp.MustCompile(`(?ms)^kubectl (create|wait) (?:-f - <<YAML\n(.*?)^YAML$|([^\n]+)$)`) // as a shell reads it
	commands := command.FindAllStringSubmatch(notes, -1)
	if len(commands) != 4 {
		i.Fatalf("want a preset, a wait, a VM and a BackendProfile in the notes:\n%s", notes)
	}
	for _, c := range commands {
		if c[1] == "create" {
			i.Must(c[2], "create", "-f", "-")
		} else {
			i.Must("", append([]string{c[1], "--timeout=60s"}, strings.Fields(c[3])...)...)
		}
	}
	for path, want := range map[string]string{"{.spec.template.spec.domain.memory.guest}": "1Gi", "{.spec.template.spec.volumes[0].name}": "root"} {
		if err := i.Is("vm/first", path, want); err != nil {
			i.Error(err)
		}
	}
	if missing := "Each VMI runs in its own pod"; !strings.Contains(notes, missing) {
		i.Errorf("want %q in the notes:\n%s", missing, notes)
	}
	i.Must("", "delete", "vm/first")
}

// goes: VMs stay, in every version that needs no webhook, and no object is left that calls a
// service without endpoints.
func (i *installed) goes() {
	i.Helper()
	for _, version := range []string{"v1alpha2", "v1alpha3"} { // which are in managedFields from then on
		i.Must(in(version, sparse, version), "create", "-f", "-")
	}
	i.migrates()
	failed := i.reading("v1", "v1alpha3")
	for _, want := range []string{"v1alpha2 is no longer served", "nothing to do"} {
		if out, err := i.retire(); err != nil || !strings.Contains(out, want) {
			i.Errorf("want it to say %q, got %v: %s", want, err, out)
		}
	}
	if err := errors.Join(i.replica.Serves(), i.Is("crd/virtualmachines.kubevirt.io", "{.spec.conversion}", `{"strategy":"None"}`)); err != nil {
		i.Errorf("the manager should serve on, and leave it at that: %v", err)
	}
	i.MustHelm("uninstall", release, "--no-hooks") // there are no nodes to run them
	i.replica.Delete()
	if first := failed(); first != "" {
		i.Errorf("machines should be readable throughout: %s", first)
	}
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "clusterrole", "clusterrolebinding"} {
		if out := i.Must("", "get", kind, "-o", "name"); strings.Contains(out, "virtwright") {
			i.Errorf("left behind: %s", out)
		}
	}
	if out := i.Must("", "get", "apiservice", "-o", "name"); strings.Contains(out, "subresources") {
		i.Errorf("left behind: %s", out)
	}
	if err := i.Is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		i.Errorf("machines and their CRDs should stay: %v", err)
	}
	i.Eventually("machines are created as they are", func() error { return i.Try(fmt.Sprintf(sparse, "later"), "create", "-f", "-") })
	i.goOnWithoutConversion()
	i.Must("", "create", "namespace", "short-lived")
	i.Must("", "delete", "namespace", "short-lived", "--timeout=60s")
}

// migrates: machines that are stored in the form that only we convert hold everything up, until
// they have been written again.
func (i *installed) migrates() {
	i.Helper()
	i.store("v1alpha2")
	i.Must(boot, "create", "-f", "-")
	i.store("v1")
	if out, err := i.retire(); err == nil || !strings.Contains(out, "objects may be stored as v1alpha2") {
		i.Errorf("want it to reject, got %v: %s", err, out)
	}
	i.Must(i.Must("", "get", "virtualmachines", "--all-namespaces", "-o", "json"), "replace", "-f", "-")
	i.stored(`["v1"]`)
}

// store makes the API server store machines in a version, and waits until it does.
func (i *installed) store(version string) {
	i.Helper()
	hash := func() (hash string) {
		var list metav1.APIResourceList
		if err := json.Unmarshal([]byte(i.Must("", "get", "--raw", "/apis/kubevirt.io/v1")), &list); err != nil {
			i.Fatal(err)
		}
		for _, r := range list.APIResources {
			if r.Name == "virtualmachines" {
				hash = r.StorageVersionHash
			}
		}
		return hash
	}
	before := hash()
	i.Must("", "patch", "crd", "virtualmachines.kubevirt.io", "--type", "json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/2/storage","value":%t}]`, version == "v1", version == "v1alpha2"))
	i.Eventually("machines are stored in "+version, func() error {
		if hash() == before {
			return errors.New("they are not yet")
		}
		return nil
	})
}

// goOnWithoutConversion: a VM written in any version can be read and written in v1 and v1alpha3,
// and only in these.
func (i *installed) goOnWithoutConversion() {
	i.Helper()
	versions := []string{"v1", "v1alpha3"}
	for _, version := range versions {
		i.Must(in(version, sparse, "after-"+version), "create", "-f", "-")
	}
	for _, version := range versions {
		for _, name := range []string{"web", "v1alpha2", "v1alpha3", "after-v1", "after-v1alpha3"} {
			object := "virtualmachines." + version + ".kubevirt.io/" + name
			if err := i.Is(object, "{.apiVersion}", "kubevirt.io/"+version); err != nil {
				i.Error(err)
			}
			i.Must("", "label", object, "written-in="+version, "--overwrite")
			i.Must(in(version, applied, name), "apply", "--server-side", "--force-conflicts", "-f", "-")
		}
	}
	if err := i.Is("vm/boot", "{.spec.template.spec.domain.devices.disks[0].name}", "root"); err != nil {
		i.Errorf("objects of other stored versions should have been migrated: %v", err)
	}
	err := i.Try("", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/default/virtualmachines")
	if err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
		i.Errorf("v1alpha2 should not be served: %v", err)
	}
}

// comesBack: installed again, everything that was kept is converted again.
func (i *installed) comesBack() {
	i.Helper()
	i.MustHelm("upgrade", append(selfSigned("true"), "--install")...)
	i.run()
	i.Eventually("v1alpha2 is served again", func() error {
		return i.Is("virtualmachines.v1alpha2.kubevirt.io/web", "{.apiVersion}", "kubevirt.io/v1alpha2")
	})
}

// reading lists machines in versions, in turn, until the function is called, which says what failed
// first.
func (i *installed) reading(versions ...string) func() string {
	var first string
	ctx, stop := context.WithCancel(i.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; first == ""; n++ {
			version := versions[n%len(versions)]
			list := i.Clients.Discovery().RESTClient().Get().WarningHandler(rest.NoWarnings{}).AbsPath("/apis/kubevirt.io/" + version + "/namespaces/default/virtualmachines")
			err := list.Do(ctx).Error()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				first = version + ": " + err.Error()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() string {
		stop()
		<-ended
		return first
	}
}

// run starts the replica and waits until it is an endpoint.
func (i *installed) run() {
	i.Helper()
	i.replica = i.Start(pod)
	i.Eventually("the manager is ready", i.replica.Serves)
}

// put calls a verb of the machine web.
func (i *installed) put(verb string) {
	i.Helper()
	i.Eventually(verb, func() error {
		return i.Clients.Discovery().RESTClient().Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/" + verb).Do(i.Context()).Error()
	})
}

// hook creates the chart's objects for a helm event, except the Job, and returns the Job's service
// account. The function deletes them.
func (i *installed) hook(event string) (runs *unstructured.Unstructured, end func()) {
	i.Helper()
	hooks, _, err := i.Helm("get", "hooks", release)
	if err != nil {
		i.Fatal(err)
	}
	var rights []string
	for document := range strings.SplitSeq(hooks, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			i.Fatal(err)
		}
		switch {
		case object.GetAnnotations()["helm.sh/hook"] != event:
		case object.GetKind() == "Pod" || object.GetKind() == "Job":
			runs = object
		default:
			rights = append(rights, document)
		}
	}
	if runs == nil {
		i.Fatalf("nothing runs at %s", event)
	}
	i.Must(strings.Join(rights, "\n---\n"), "apply", "-n", namespace, "-f", "-")
	return runs, func() { i.Must(strings.Join(rights, "\n---\n"), "delete", "-n", namespace, "-f", "-") }
}

// retire runs the program of the pre-delete hook, with the chart's arguments and permissions.
func (i *installed) retire() (said string, err error) {
	i.Helper()
	job, end := i.hook("pre-delete")
	defer end()
	args, _, _ := unstructured.NestedStringSlice(containerOf(job), "args")
	return i.once(append(args, "--kubeconfig="+i.User(podOf(job)["serviceAccountName"].(string)))...)
}

// selfTest asks as "helm test" does, with the rights that the chart gives it.
func (i *installed) selfTest() {
	i.Helper()
	_, end := i.hook("test")
	defer end()
	out, err := i.once("--self-test", "--subresources-bind-address=:9444", "--kubeconfig="+i.User(release+"-test"))
	if err != nil || !strings.Contains(out, "call start, stop and restart.") {
		i.Errorf("self-test: %v: %s", err, out)
	}
}

// once runs the manager to an end, which must come within a minute.
func (i *installed) once(args ...string) (said string, err error) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, installation.Program(i.T, installation.Manager), args...).CombinedOutput()
	return string(out), err
}
