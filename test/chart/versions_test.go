package chart

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

// selfSigned are the values of an installation that serves v1alpha2 or does not.
func selfSigned(v1alpha2 string) []string {
	return []string{release, folder, "--set", "certs.mode=self-signed,apiVersions.v1alpha2=" + v1alpha2}
}

// apiVersions.v1alpha2 can be changed on a live cluster: VMs stay readable, no webhook converts
// while it is off, and nothing of v1alpha2 is lost.
func TestVersions(t *testing.T) {
	i := &installed{Installation: installation.New(t)}
	i.MustHelm("install", release, folder, "--set", "certs.mode=self-signed")
	i.run()
	i.isNotConverted()
	i.Must(small, "apply", "-f", "-")
	i.Must("", "wait", "vmpreset/small", "--for=condition=Ready", "--timeout=60s")
	for _, version := range []string{"v1", "v1alpha3"} {
		i.Eventually("a VM is created", func() error { return i.Try(in(version, sparse, version), "create", "-f", "-") })
	}

	failed := i.reading("v1")
	i.MustHelm("upgrade", selfSigned("true")...)
	i.isConverted()
	if first := failed(); first != "" {
		t.Errorf("VMs should be readable while v1alpha2 is turned on: %s", first)
	}
	i.Must(boot, "create", "-f", "-")
	i.Must(in("v1alpha2", applied, "v1"), "apply", "--server-side", "-f", "-") // is in managedFields from then on
	if err := i.Is("crd/virtualmachines.kubevirt.io", "{.status.storedVersions}", `["v1"]`); err != nil {
		t.Errorf("v1alpha2 must never be stored: %v", err)
	}

	i.stored(`["v1alpha2", "v1"]`)
	if _, stderr, err := i.Helm("upgrade", selfSigned("false")...); err == nil || !strings.Contains(stderr, "apiVersions.v1alpha2: Forbidden: status.storedVersions") {
		t.Errorf("objects may be stored in v1alpha2, and it was turned off: %v %s", err, stderr)
	}
	i.stored(`["v1"]`)
	failed = i.reading("v1", "v1alpha3")
	i.MustHelm("upgrade", selfSigned("false")...)
	i.isNotConverted()
	for _, version := range []string{"v1", "v1alpha3"} {
		for _, name := range []string{"v1", "v1alpha3", "boot"} {
			i.Must(in(version, applied, name), "apply", "--server-side", "--force-conflicts", "-f", "-")
		}
	}
	if err := errors.Join(i.replica.Serves(), i.Is("vm/boot", "{.spec.template.spec.domain.devices.disks[0].name}", "root")); err != nil {
		t.Error(err)
	}
	if first := failed(); first != "" {
		t.Errorf("VMs should be readable while v1alpha2 is turned off: %s", first)
	}

	i.MustHelm("upgrade", selfSigned("true")...)
	i.isConverted()
	if err := i.Is("virtualmachines.v1alpha2.kubevirt.io/boot", "{.spec.template.spec.domain.devices.disks[0]['name','volumeName']}", "boot root"); err != nil {
		t.Errorf("names of v1alpha2 should be kept: %v", err)
	}
	i.appliesServerSide()
}

// appliesServerSide turns v1alpha2 off as tools do that apply server-side. They cannot remove the
// CA bundle, which the manager owns, so docs/operations.md patches the CRD first.
func (i *installed) appliesServerSide() {
	i.Helper()
	i.Must("", "patch", "crd", "virtualmachines.kubevirt.io", "--type", "json", "-p", `[{"op": "test", "path": "/spec/versions/2/name", "value": "v1alpha2"},
		{"op": "replace", "path": "/spec/versions/2/served", "value": false}, {"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]`)
	objects, err := render(i.T, `certs.mode="self-signed"`)
	if err != nil {
		i.Fatal(err)
	}
	for _, o := range objects {
		if o.GetName() == "virtualmachines.kubevirt.io" {
			manifest, err := yaml.Marshal(o.Object)
			if err != nil {
				i.Fatal(err)
			}
			i.Must(string(manifest), "apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", "-")
		}
	}
	i.isNotConverted()
}

// stored says in which versions objects may be stored.
func (i *installed) stored(versions string) {
	i.Helper()
	i.Must("", "patch", "crd", "virtualmachines.kubevirt.io", "--subresource", "status", "--type", "merge", "-p", `{"status": {"storedVersions": `+versions+`}}`)
}

// isConverted waits until VMs are served in every version.
func (i *installed) isConverted() {
	i.Helper()
	for _, version := range []string{"v1alpha2", "v1alpha3", "v1"} {
		i.Eventually(version+" is served", func() error {
			return i.Try("", "get", "--raw", "/apis/kubevirt.io/"+version+"/namespaces/default/virtualmachines")
		})
	}
}

// isNotConverted waits until v1alpha2 is not served, and checks that no webhook converts.
func (i *installed) isNotConverted() {
	i.Helper()
	if err := i.Is("crd/virtualmachines.kubevirt.io", "{.spec.conversion}", `{"strategy":"None"}`); err != nil {
		i.Error(err)
	}
	i.Eventually("v1alpha2 is not served", func() error {
		err := i.Try("", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/default/virtualmachines")
		if err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
			return errors.Join(errors.New("it is served"), err)
		}
		return nil
	})
}
