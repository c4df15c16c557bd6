package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var dataVolumes = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}

// dataVolumeCRD is CDI's API, as far as controllers of machines see it.
const dataVolumeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: datavolumes.cdi.kubevirt.io, annotations: {api-approved.kubernetes.io: "unapproved, for a test"}}
spec:
  group: cdi.kubevirt.io
  names: {kind: DataVolume, plural: datavolumes, singular: datavolume}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func (s *scene) volumes() dynamic.ResourceInterface {
	return s.stage.client.Resource(dataVolumes).Namespace(s.namespace)
}

// withDisk makes the machine with a template of the volume root, and annotations that say no.
func (s *scene) withDisk(strategy string, annotations ...string) {
	s.Helper()
	vm := manifest("VirtualMachine", s.name, map[string]any{
		"runStrategy":         strategy,
		"dataVolumeTemplates": []any{map[string]any{"metadata": map[string]any{"name": "root"}, "spec": map[string]any{}}},
		"template":            map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}, "memory": map[string]any{"guest": "64Mi"}}}},
	})
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "root"},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}
	claims := s.stage.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}).Namespace(s.namespace)
	if _, err := claims.Create(s.Context(), claim, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		s.Fatal(err)
	}
	for _, key := range annotations {
		vm.SetAnnotations(map[string]string{key: "false"})
	}
	if _, err := s.machines().Create(s.Context(), vm, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) fill(phase string) {
	s.Helper()
	eventually(s.T, saying("the volume is there"), func() error {
		_, err := s.volumes().Patch(s.Context(), "root", types.MergePatchType, []byte(`{"status":{"phase":"`+phase+`"}}`), metav1.PatchOptions{}, "status")
		return err
	})
}

// Volumes hold up a start, and nothing else; no machine takes another's.
func TestVolumes(t *testing.T) {
	stage := newStage(t)
	stage.kubectl(t, dataVolumeCRD, "apply", "-f", "-")
	stage.kubectl(t, "", "wait", "crd", "datavolumes.cdi.kubevirt.io", "--for=condition=Established", "--timeout=30s")
	for name, story := range map[string]func(*scene){
		"of-another": (*scene).ofAnother, "without-owner": (*scene).ofNobody, "rejected": (*scene).rejectedVolume,
		"stop": (*scene).stopWithoutVolumes, "later": (*scene).volumesLater,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(stage.scene(t, "volumes-"+name))
		})
	}
	t.Run("unlistable", func(t *testing.T) {
		t.Parallel()
		stage.unlistable(t)
	})
}

func (s *scene) ofAnother() {
	s.name = "first"
	s.withDisk("Always")
	s.fill("Succeeded")
	eventually(s.T, saying("the first runs"), s.runs)
	s.patch(`{"spec":{"dataVolumeTemplates":null}}`)
	s.name = "second"
	s.withDisk("Always")
	s.awaitFailure("DataVolumeTaken")
	if s.instance() != nil {
		s.Error("two machines run with one disk")
	}
	s.name = "first"
	s.delete(s.machines(), metav1.DeletePropagationOrphan)
	if err := s.volumes().Delete(s.Context(), "root", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.name = "second"
	s.fill("Succeeded")
	eventually(s.T, saying("the second runs with a volume of its own"), s.runs)
}

func (s *scene) ofNobody() {
	s.name = "web"
	volume := manifest("DataVolume", "root", map[string]any{})
	volume.SetAPIVersion("cdi.kubevirt.io/v1beta1")
	if _, err := s.volumes().Create(s.Context(), volume, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.fill("ImportInProgress")
	s.withDisk("Always")
	eventually(s.T, saying("it waits"), func() error { return s.is("Provisioning") })
	s.fill("Succeeded")
	soon(s.T, "that its volume is filled wakes it", s.runs)
}

func (s *scene) rejectedVolume() {
	s.name = "web"
	admit := s.reject("CREATE", "cdi.kubevirt.io", "datavolumes")
	s.withDisk("Always")
	s.awaitFailure("FailedDataVolumeCreate")
	s.isCalm()
	admit()
	s.fill("Succeeded") // once the controller has created it
	eventually(s.T, saying("it runs"), s.runs)
}

func (s *scene) stopWithoutVolumes() {
	s.name = "web"
	s.withDisk("Always")
	s.fill("Succeeded")
	eventually(s.T, saying("it runs"), s.runs)
	admit := s.unreachable("cdi.kubevirt.io", "datavolumes")
	defer admit()
	if err := s.volumes().Delete(s.Context(), "root", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.patch(`{"spec":{"runStrategy":"Halted"}}`)
	eventually(s.T, saying("it stops though its volume cannot be made"), func() error {
		if s.instance() != nil {
			return errors.New("there is an instance")
		}
		return nil
	})
}

func (s *scene) volumesLater() {
	s.name = "web"
	s.withDisk("Halted", "kubevirt.io/immediate-data-volume-creation")
	eventually(s.T, saying("it rests"), s.rests)
	time.Sleep(settles)
	if _, err := s.volumes().Get(s.Context(), "root", metav1.GetOptions{}); err == nil {
		s.Error("the volume was made though the machine does not start")
	}
	s.patch(`{"spec":{"runStrategy":"Always"}}`)
	s.fill("Succeeded")
	eventually(s.T, saying("it runs"), s.runs)
}

// unlistable: a manager that may not list volumes keeps machines that have none.
func (s *stage) unlistable(t *testing.T) {
	t.Helper()
	const user = "unlistable"
	s.kubectl(t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: [{apiGroups: [kubevirt.io, events.k8s.io, ""], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %[1]s}]
---
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
`, user), "apply", "-f", "-")
	one := &scene{T: t, stage: s, namespace: user}
	for i := range 20 { // more than there are workers
		one.name = fmt.Sprintf("disk-%d", i)
		one.withDisk("Halted")
	}
	config := s.config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	mgr := one.manager(ctx, config)
	go func() { _ = mgr.Start(ctx) }()
	one.name = "plain"
	one.create("Always")
	eventually(t, saying("a machine without volumes runs"), one.runs)
	one.name = "disk-0"
	one.awaitFailure("DataVolumesUnknown")
}
