package podspec

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/test/golden"
)

// A testCase is a VMI with everything that its pod depends on, in a file of testdata.
type testCase struct {
	VMI      kubevirtv1.VirtualMachineInstance `json:"vmi"`
	Backend  v1alpha1.BackendSettings          `json:"backend"`
	Claims   map[string]claim                  `json:"claims"`
	Settings struct {
		ImageVolumes bool `json:"imageVolumes"`
	} `json:"settings"`
	// Level is the strictest Pod Security level that admits the pod.
	Level string `json:"level"`
}

type claim struct {
	Block    bool   `json:"block"`
	Capacity string `json:"capacity"`
}

func (c *testCase) build(t *testing.T) *corev1.Pod {
	t.Helper()
	request := &Request{VMI: &c.VMI, Frontend: &v1alpha1.FrontendSettings{}, Backend: &c.Backend, Claims: map[string]Claim{}}
	for name, one := range c.Claims {
		request.Claims[name] = Claim{Block: one.Block, Capacity: resource.MustParse(one.Capacity)}
	}
	pod, err := New(request, &Settings{
		Image: "launcher:1", PullPolicy: corev1.PullIfNotPresent, PullSecrets: []string{"pull"}, KVMResource: "example.com/kvm",
		ContainerDiskLimit: resource.MustParse("20Gi"), ImageVolumes: c.Settings.ImageVolumes,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestPods compares the pod of each case with testdata, and the Pod Security level that admits it.
func TestPods(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c testCase
			if err := yaml.UnmarshalStrict(raw, &c); err != nil {
				t.Fatal(err)
			}
			pod := c.build(t)
			if level := strictest(t, pod); level != c.Level {
				t.Errorf("Pod Security level %s admits it, want %s", level, c.Level)
			}
			text, err := yaml.Marshal(withoutInput(t, pod))
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, strings.Replace(file, ".in.", ".out.", 1), string(text))
		})
	}
}

// strictest returns the strictest level that admits a pod.
func strictest(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []podsecurity.Level{podsecurity.LevelRestricted, podsecurity.LevelBaseline} {
		if policy.AggregateCheckResults(evaluator.EvaluatePod(podsecurity.LevelVersion{Level: level, Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec)).Allowed {
			return string(level)
		}
	}
	return string(podsecurity.LevelPrivileged)
}

// withoutInput checks that the launcher can decode its input, and removes it.
func withoutInput(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	env := pod.Spec.Containers[0].Env
	if len(env) != 2 || env[0].Name != v1alpha1.EnvLauncherInput || env[1].Name != v1alpha1.EnvNode || env[1].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Fatalf("the launcher has the environment %v", env)
	}
	var input domain.Input
	if err := json.Unmarshal([]byte(strings.ReplaceAll(env[0].Value, "$$", "$")), &input); err != nil || input.VMI.Name == "" {
		t.Fatalf("cannot decode the input: %v", err)
	}
	pod.Spec.Containers[0].Env = nil
	return pod
}

// TestEscaped prevents the kubelet from expanding references to variables in user data.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "$(HOME) $x $$": "$$(HOME) $$x $$$$"} {
		if got := escaped(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestName checks that names of pods are valid and unique.
func TestName(t *testing.T) {
	long := strings.Repeat("a", 253)
	seen := map[string]string{}
	for _, vmi := range []string{"web", "web.a", long, long[:252], long[:239], long[:240], long[:238] + "-b", long[:238] + "-" + strings.Repeat("c", 14)} {
		name := Name(vmi)
		if len(name) > 253 || !strings.HasPrefix(name, v1alpha1.PodPrefix) || strings.HasSuffix(name, "-") {
			t.Errorf("%s: %s", vmi, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s share %s", vmi, other, name)
		}
		seen[name] = vmi
	}
}

// TestBinding checks that the first consumer of a VMI's claims has its volumes, devices and
// privileges, and runs nothing.
func TestBinding(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Name, vmi.UID = "web", "5a0e3b4c-0000-4000-8000-00000000dead"
	vmi.Labels = map[string]string{"app": "web"}
	vmi.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "root"}}}}
	vmi.Spec.NodeSelector = map[string]string{"disk": "fast"}
	pod, err := New(&Request{VMI: vmi}, &Settings{Image: "launcher:1"})
	if err != nil {
		t.Fatal(err)
	}
	got := Binding(pod)
	if got.Name != "virt-launcher-web-bind-5a0e3b4c" || !maps.Equal(got.Labels, map[string]string{"app": "web", v1alpha1.LabelPod: v1alpha1.LabelPodValue}) || !metav1.IsControlledBy(got, vmi) {
		t.Errorf("its metadata: %+v", got.ObjectMeta)
	}
	launcher, of := got.Spec.Containers[0], pod.Spec.Containers[0]
	if !slices.Equal(launcher.Command, v1alpha1.LauncherBind) || launcher.Env != nil || launcher.StartupProbe != nil || launcher.ReadinessProbe == nil ||
		!reflect.DeepEqual(launcher.VolumeMounts, of.VolumeMounts) || !reflect.DeepEqual(launcher.Resources, of.Resources) ||
		!reflect.DeepEqual(got.Spec.NodeSelector, pod.Spec.NodeSelector) || !reflect.DeepEqual(got.Spec.Volumes, pod.Spec.Volumes) {
		t.Errorf("its spec: %+v", got.Spec)
	}
	if got := Grace(new(int64(math.MaxInt64))); got != math.MaxInt32+15 {
		t.Errorf("the longest grace period is %d s", got)
	}
	vmi.Name = strings.Repeat("a", 253)
	if pod, err = New(&Request{VMI: vmi}, &Settings{}); err != nil || len(Binding(pod).Name) != 253 {
		t.Errorf("the name of a long one: %s, %v", Binding(pod).Name, err)
	}
}

func TestTooLarge(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Name = "web"
	vmi.Annotations = map[string]string{"note": strings.Repeat("x", 130<<10)}
	if _, err := New(&Request{VMI: vmi}, &Settings{}); err == nil || !strings.Contains(err.Error(), "move data into Secrets or ConfigMaps") {
		t.Errorf("got %v", err)
	}
}

// The pod names the port of metrics unless the guest uses the number or the name.
func TestMetricsPort(t *testing.T) {
	const number = v1alpha1.MetricsPort
	get := &kubevirtv1.Probe{Handler: kubevirtv1.Handler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(number)}}}
	for name, row := range map[string]struct {
		nic   kubevirtv1.Interface
		probe *kubevirtv1.Probe
		want  bool
	}{
		"no port":       {want: true},
		"another port":  {nic: kubevirtv1.Interface{Ports: []kubevirtv1.Port{{Name: "http", Port: 80}}}, want: true},
		"another range": {nic: kubevirtv1.Interface{PortRanges: []kubevirtv1.PortRange{{Start: number + 1, End: number + 9}}}, want: true},
		"the port":      {nic: kubevirtv1.Interface{Ports: []kubevirtv1.Port{{Port: number}}}},
		"the name":      {nic: kubevirtv1.Interface{Ports: []kubevirtv1.Port{{Name: v1alpha1.MetricsPortName, Port: 80}}}},
		"a range":       {nic: kubevirtv1.Interface{PortRanges: []kubevirtv1.PortRange{{Start: 9000, End: number}}}},
		"a probe":       {probe: get},
	} {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Spec.Domain.Devices.Interfaces, vmi.Spec.ReadinessProbe = []kubevirtv1.Interface{row.nic}, row.probe
		pod, err := New(&Request{VMI: vmi}, &Settings{})
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
			return p.Name == v1alpha1.MetricsPortName && p.ContainerPort == number
		})
		if has != row.want {
			t.Errorf("%s: metrics %v, want %v", name, has, row.want)
		}
	}
}
