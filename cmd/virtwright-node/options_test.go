package main

import (
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestParse(t *testing.T) {
	t.Setenv(nodeName, "")
	for args, want := range map[string]string{
		"--node-name=a": "",
		"--node-name=a --kvm=false --libvirt-uri=qemu:///session --host-disk-dirs=/a,/b": "",
		"":                               "$NODE_NAME must say whose agent this is",
		"--node-name=a --kvm=yes":        `--kvm must be one of ["auto" "true" "false"], not "yes"`,
		"--node-name=a --state-dir=here": `--state-dir must be an absolute path, not "here"`,
		"--node-name=a --volumes-dir= --state-dir=": "--state-dir must name a folder",
		"--node-name=a --images-dir=x":              "--images-dir must be an absolute path",
		"--node-name=a --host-disk-dirs=/a,b":       `--host-disk-dirs must be absolute paths, not "b"`,
		"--node-name=a --log-level=loud":            "loud",
		"--node-name=a more":                        `unexpected argument "more"`,
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
	t.Setenv(nodeName, "from-the-chart")
	o, err := parse([]string{"--state-dir=/a/../b/"}, io.Discard)
	if err != nil || o.node != "from-the-chart" || o.stateDir != "/b" {
		t.Errorf("got %+v: %v", o, err)
	}
}

// Of instances of other nodes an agent keeps little.
func TestOthers(t *testing.T) {
	trim := others("mine")
	for node, whole := range map[string]bool{"": true, "mine": true, "other": false} {
		vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Labels: map[string]string{"a": "b"}}}
		vmi.Spec.Hostname, vmi.Status.NodeName = "web", node
		out, err := trim(vmi)
		if err != nil {
			t.Fatal(err)
		}
		got := out.(*kubevirtv1.VirtualMachineInstance)
		if got.Name != "web" || got.UID != "u" || got.Status.NodeName != node || (got.Spec.Hostname != "") != whole || (got.Labels != nil) != whole {
			t.Errorf("on node %q: %+v", node, got)
		}
	}
}
