package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// What a host decides is between the weakest profile and what is built in.
func TestOnHost(t *testing.T) {
	profiles, errs := CompileProfiles(nil, []v1alpha1.BackendProfile{{
		ObjectMeta: metav1.ObjectMeta{Name: "lab"},
		Spec: v1alpha1.BackendProfileSpec{Priority: -1_000_000, BackendSettings: v1alpha1.BackendSettings{
			Paths: &v1alpha1.Paths{NVRAM: "/lab/{uid}"},
		}},
	}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	onHost := profiles.OnHost(&v1alpha1.BackendSettings{Paths: &v1alpha1.Paths{NVRAM: "/host/{uid}", Sockets: "/host/sockets"}})
	got, names := onHost.Backend(&kubevirtv1.VirtualMachineInstance{}, nil)
	if diff := cmp.Diff([]string{"lab", HostProfile}, names); diff != "" {
		t.Error(diff)
	}
	builtin := builtinBackend()
	for _, row := range []struct{ what, got, want string }{
		{"the profile's", got.Paths.NVRAM, "/lab/{uid}"},
		{"the host's", got.Paths.Sockets, "/host/sockets"},
		{"built in", got.Paths.Data, builtin.Paths.Data},
		{"built in", got.Entropy, builtin.Entropy},
	} {
		if row.got != row.want {
			t.Errorf("%s: %q, want %q", row.what, row.got, row.want)
		}
	}
	if _, names := profiles.Backend(&kubevirtv1.VirtualMachineInstance{}, nil); len(names) != 1 {
		t.Errorf("the profiles themselves have become %v", names)
	}
}
