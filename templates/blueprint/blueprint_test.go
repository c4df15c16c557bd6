package blueprint

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSeed(t *testing.T) {
	b, err := FromVM(vmOf(fields{
		"domain":  fields{"devices": fields{"disks": []any{fields{"name": "a", "disk": fields{"bus": "virtio"}}}}, "resources": fields{"requests": fields{"memory": "128Mi"}}},
		"volumes": []any{fields{"name": "a", "containerDisk": fields{"image": "i"}}},
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Parameter{
		{Name: "DISK0_BUS", Description: "disk0-bus", Path: "spec.template.spec.domain.devices.disks[0].disk.bus", Type: String, Class: Value, Default: "virtio"},
		{Name: "REQUESTS_MEMORY", Description: "requests-memory", Path: "spec.template.spec.domain.resources.requests.memory", Type: String, Class: Value, Default: "128Mi"},
		{Name: "VOLUME0_IMAGE", Description: "volume0-image", Path: "spec.template.spec.volumes[0].containerDisk.image", Type: String, Class: Value, Default: "i"},
		{Name: "LABELS", Path: "metadata.labels", Type: Object, Class: Labels, Default: "{}"},
	}
	got := append([]Parameter(nil), b.Parameters...)
	got[3].Description = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(fields{"generateName": "vm", "labels": Reference{Parameter: "LABELS"}}, b.VM["metadata"]); diff != "" {
		t.Errorf("metadata: -want, +got:\n%s", diff)
	}
	if len(b.Warnings) > 0 {
		t.Errorf("warnings: %q", b.Warnings)
	}
}

// class is the part of a parameter that TestClasses compares.
type class struct {
	Name    string
	Class   Class
	Type    Type
	Default string
}

func TestClasses(t *testing.T) {
	secret := "hunter2-hunter2"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   []class
	}{
		"secret":            {"cloud-init may hold passwords", at("volumes.#.cloudInitNoCloud.userData", secret), []class{{"VOLUME1_USER_DATA", Secret, String, ""}}},
		"empty":             {"an empty secret is none", at("volumes.#.cloudInitNoCloud.userData", ""), []class{{"VOLUME1_USER_DATA", Value, String, ""}}},
		"header":            {"headers of probes may be credentials", fields{"p": fields{"httpHeaders": []any{fields{"name": "A", "value": secret}}}}, []class{{"HTTP_HEADER0_VALUE", Secret, String, ""}}},
		"elsewhere":         {"a text that contains a secret is one", fields{"a": "x" + secret, "token": secret}, []class{{"A", Secret, String, ""}, {"TOKEN", Secret, String, ""}}},
		"elsewhere encoded": {"base64 that contains it is one", fields{"a": "x" + encoded, "token": secret}, []class{{"A", Secret, String, ""}, {"TOKEN", Secret, String, ""}}},
		"elsewhere decoded": {"a text that contains decoded base64 is one", fields{"a": "x" + secret, "userDataBase64": encoded}, []class{{"A", Secret, String, ""}, {"USER_DATA_BASE64", Secret, String, ""}}},
		"elsewhere a name":  {"names that contain one are parameters", fields{"name": secret, "token": secret}, []class{{"NAME_2", Secret, String, ""}, {"TOKEN", Secret, String, ""}}},
		"elsewhere number":  {"numbers contain digits", fields{"a": int64(12345678), "token": "12345678"}, []class{{"A", Secret, Integer, ""}, {"TOKEN", Secret, String, ""}}},
		"short":             {"short secrets occur by chance", fields{"a": "abcdef", "token": "abc"}, []class{{"A", Value, String, "abcdef"}, {"TOKEN", Secret, String, ""}}},
		"query":             {"a query may be a credential", fields{"p": fields{"httpGet": fields{"path": "/ready?sig=0123456789"}}}, []class{{"HTTP_GET_PATH", Secret, String, ""}}},
		"query elsewhere":   {"a text that contains the query is a secret", fields{"a": "see sig=0123456789", "p": fields{"httpGet": fields{"path": "/ready?sig=0123456789"}}}, []class{{"A", Secret, String, ""}, {"HTTP_GET_PATH", Secret, String, ""}}},
		"empty query":       {"a path without a query is a value", fields{"p": fields{"httpGet": fields{"path": "/ready?"}}}, []class{{"HTTP_GET_PATH", Value, String, "/ready?"}}},
		"other path":        {"only paths of probes have queries", fields{"p": fields{"path": "/a?sig=0123456789"}}, []class{{"P_PATH", Value, String, "/a?sig=0123456789"}}},
		"identity":          {"no two VMs share it", fields{"domain": fields{"firmware": fields{"uuid": "u"}}, "hostname": "h"}, []class{{"FIRMWARE_UUID", Identity, String, ""}, {"HOSTNAME", Identity, String, ""}}},
		"disk serial":       {"a disk's serial is no identity", at("domain.devices.disks.#.serial", "s"), []class{{"DISK1_SERIAL", Value, String, "s"}}},
		"types":             {"types of JSON stay", fields{"a": int64(1), "b": true, "c": 0.5, "d": "1"}, []class{{"A", Value, Integer, "1"}, {"B", Value, Boolean, "true"}, {"C", Value, Number, "0.5"}, {"D", Value, String, "1"}}},
		"whole floats":      {"a float without a fraction is read as an integer", fields{"a": 3.0}, []class{{"A", Value, Integer, "3"}}},
		"large":             {"parameters cannot hold it exactly", fields{"a": int64(1)<<53 + 1, "b": int64(1) << 53}, []class{{"B", Value, Integer, "9007199254740992"}}},
		"no leaves":         {"empty objects and lists, nulls and names are no leaves", fields{"a": fields{}, "b": []any{}, "c": nil, "name": "x"}, nil},
		"integer name":      {"names are strings", fields{"a": fields{"name": int64(1)}}, []class{{"A_NAME", Value, Integer, "1"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := FromVM(vmOf(c.spec), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []class
			for _, p := range b.Parameters[:len(b.Parameters)-1] {
				got = append(got, class{p.Name, p.Class, p.Type, p.Default})
				if p.Required != (p.Class == Secret) {
					t.Errorf("%s: required is %v", p.Name, p.Required)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.reason, diff)
			}
		})
	}
}

// TestSecretAnnotations checks annotations in all metadata of a VM.
func TestSecretAnnotations(t *testing.T) {
	annotations := func() fields {
		return fields{
			"a/db-Password": "v1", "a/passwd": "v2", "apiTOKEN": "v3", "a/client_secret": "v4", "a/ssh.key": "v5", "a/AWSCredentials": "v6",
			"a/passwordless": "w1", "a/secretName": "w2", "a/keyboard": "w3", "token/a": "w4", "a/empty-key": "",
		}
	}
	vm := vmOf(fields{"hostname": "h"})
	vm["metadata"].(fields)["annotations"] = annotations()
	spec := vm["spec"].(fields)
	spec["template"].(fields)["metadata"] = fields{"annotations": annotations()}
	spec["dataVolumeTemplates"] = []any{fields{"metadata": fields{"name": "d", "annotations": annotations()}}}
	b, err := FromVM(vm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	published := []any{
		field(b.VM, "metadata", "annotations"), field(b.VM, "spec", "template", "metadata", "annotations"),
		field(field(b.VM, "spec", "dataVolumeTemplates").([]any)[0], "metadata", "annotations"),
	}
	for place, found := range published {
		for key, was := range annotations() {
			value := found.(fields)[key]
			_, withheld := value.(Reference)
			if want := strings.HasPrefix(was.(string), "v"); withheld != want {
				t.Errorf("place %d: %s is %v", place, key, value)
			}
		}
	}
	if got := len(b.Withheld()); got != 18 {
		t.Errorf("%d parameters require a value, want 18: %q", got, b.Withheld())
	}
}

func TestRejected(t *testing.T) {
	secret := "hunter2-hunter2"
	with := func(change func(vm map[string]any)) map[string]any {
		vm := vmOf(fields{"token": secret})
		change(vm)
		return vm
	}
	meta := func(key string, value any) map[string]any {
		return with(func(vm map[string]any) { vm["metadata"].(map[string]any)[key] = value })
	}
	cases := map[string]struct {
		vm     map[string]any
		rename bool
		want   string
	}{
		"nil":                  {vm: nil, want: "want kind VirtualMachine"},
		"kind":                 {vm: with(func(vm map[string]any) { vm["kind"] = "Pod" }), want: "want kind VirtualMachine"},
		"version":              {vm: with(func(vm map[string]any) { vm["apiVersion"] = "kubevirt.io/${X}" }), want: "want kind VirtualMachine"},
		"metadata":             {vm: with(func(vm map[string]any) { vm["metadata"] = "x" }), want: "metadata must be an object"},
		"name":                 {vm: meta("name", int64(1)), want: "metadata.name"},
		"deleted":              {vm: meta("deletionTimestamp", "2026-01-01T00:00:00Z"), want: "being deleted"},
		"labels":               {vm: meta("labels", []any{}), want: "metadata.labels must be an object"},
		"label":                {vm: meta("labels", fields{"a": int64(1)}), want: "metadata.labels"},
		"label reference":      {vm: meta("labels", fields{"a": "${A}"}), want: "metadata.labels"},
		"label secret":         {vm: meta("labels", fields{"a": secret}), want: "metadata.labels.a contains the secret in spec.template.spec.token"},
		"annotations":          {vm: meta("annotations", "x"), want: "metadata.annotations must be an object"},
		"spec":                 {vm: with(func(vm map[string]any) { vm["spec"] = []any{} }), want: "spec.template.spec: Required value"},
		"no instance":          {vm: with(func(vm map[string]any) { vm["spec"] = fields{"template": fields{"spec": nil}} }), want: "spec.template.spec: Required value"},
		"secret key":           {vm: vmOf(fields{"token": secret, "a": fields{"x" + secret: "x"}}), want: "a key in spec.template.spec.a contains the secret in spec.template.spec.token"},
		"labels key":           {vm: vmOf(fields{"a": fields{"${{LABELS}}": "x"}}), want: "contains a reference to parameter LABELS"},
		"secret in other path": {vm: vmOf(fields{"token": secret, secret: fields{"${LABELS}": "x"}}), want: "contains the secret in"},
		"secret number":        {vm: vmOf(fields{"token": "9223372036854775807", "a": int64(math.MaxInt64)}), want: "cannot be a parameter"},
		"no JSON":              {vm: vmOf(fields{"a": struct{}{}}), want: "not JSON"},
		"not a number":         {vm: vmOf(fields{"a": math.NaN()}), want: "not JSON"},
		"long volume":          {vm: withVolume(strings.Repeat("a", 248)), rename: true, want: "longer than 253"},
		"odd volume":           {vm: withVolume("${X}"), rename: true, want: "cannot have a suffix"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := FromVM(c.vm, Options{Rename: c.rename})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func withVolume(name string) map[string]any {
	vm := vmOf(fields{"volumes": []any{
		fields{"name": "a", "dataVolume": fields{"name": name}},
		fields{"name": "b", "persistentVolumeClaim": fields{"claimName": name}},
		fields{"name": "c", "persistentVolumeClaim": fields{"claimName": "other"}},
	}})
	pvc := func(namespace any) map[string]any {
		return fields{"metadata": fields{"name": "copy"}, "spec": fields{"source": fields{"pvc": fields{"name": name, "namespace": namespace}}}}
	}
	vm["spec"].(map[string]any)["dataVolumeTemplates"] = []any{fields{"metadata": fields{"name": name}}, pvc("here"), pvc("there")}
	return vm
}

func TestRename(t *testing.T) {
	b, err := FromVM(withVolume("root"), Options{Rename: true})
	if err != nil {
		t.Fatal(err)
	}
	suffixed := Reference{Parameter: "DATA_VOLUME_SUFFIX", Prefix: "root-"}
	want := []any{suffixed, suffixed, Reference{Parameter: "VOLUME2_CLAIM_NAME"}, suffixed, suffixed, "root"}
	volumes := field(b.VM, "spec", "template", "spec", "volumes").([]any)
	templates := field(b.VM, "spec", "dataVolumeTemplates").([]any)
	got := []any{
		field(volumes[0], "dataVolume", "name"), field(volumes[1], "persistentVolumeClaim", "claimName"), field(volumes[2], "persistentVolumeClaim", "claimName"),
		field(templates[0], "metadata", "name"), field(templates[1], "spec", "source", "pvc", "name"), field(templates[2], "spec", "source", "pvc", "name"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if name := field(b.Source()["spec"].(map[string]any)["dataVolumeTemplates"].([]any)[0], "metadata", "name"); name != "root" {
		t.Errorf("the source has the name %v", name)
	}
}

// TestRenameEverywhere checks all fields in which KubeVirt has names of claims.
func TestRenameEverywhere(t *testing.T) {
	vm := vmOf(fields{
		"volumes": []any{
			fields{"name": "a", "ephemeral": fields{"persistentVolumeClaim": fields{"claimName": "root"}}},
			fields{"name": "b", "memoryDump": fields{"claimName": "root"}},
		},
		"utilityVolumes": []any{fields{"name": "u", "claimName": "root"}, fields{"name": "v", "claimName": "backup"}},
		"filesystems":    []any{fields{"name": "root"}},
		"domain":         fields{"devices": fields{"gpus": []any{fields{"name": "g", "claimName": "root"}}}},
	})
	source := func(of, kind, group, name string, namespace any) fields {
		return fields{"metadata": fields{"name": "copy"}, "spec": fields{of: fields{kind: fields{"kind": group, "name": name, "namespace": namespace}}}}
	}
	vm["spec"].(fields)["dataVolumeTemplates"] = []any{
		fields{"metadata": fields{"name": "root"}},
		source("pvc", "dataSource", "PersistentVolumeClaim", "root", nil),
		source("storage", "dataSource", "PersistentVolumeClaim", "root", nil),
		source("pvc", "dataSourceRef", "PersistentVolumeClaim", "root", nil),
		source("storage", "dataSourceRef", "PersistentVolumeClaim", "root", "here"),
		source("storage", "dataSourceRef", "PersistentVolumeClaim", "root", "there"),
		source("storage", "dataSource", "VolumeSnapshot", "root", nil),
	}
	b, err := FromVM(vm, Options{Rename: true, Namespace: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	suffixed := Reference{Parameter: "DATA_VOLUME_SUFFIX", Prefix: "root-"}
	instance := field(b.VM, "spec", "template", "spec")
	of := func(list string, i int, keys ...string) any { return field(field(instance, list).([]any)[i], keys...) }
	templates := field(b.VM, "spec", "dataVolumeTemplates").([]any)
	got := []any{
		of("volumes", 0, "ephemeral", "persistentVolumeClaim", "claimName"), of("volumes", 1, "memoryDump", "claimName"),
		of("utilityVolumes", 0, "claimName"), of("utilityVolumes", 1, "claimName"), of("filesystems", 0, "name"),
		field(field(instance, "domain", "devices", "gpus").([]any)[0], "claimName"),
		field(templates[1], "spec", "pvc", "dataSource", "name"), field(templates[2], "spec", "storage", "dataSource", "name"),
		field(templates[3], "spec", "pvc", "dataSourceRef", "name"), field(templates[4], "spec", "storage", "dataSourceRef", "name"),
		field(templates[5], "spec", "storage", "dataSourceRef", "name"), field(templates[6], "spec", "storage", "dataSource", "name"),
	}
	want := []any{
		suffixed, suffixed, suffixed, Reference{Parameter: "UTILITY_VOLUME1_CLAIM_NAME"}, "root", Reference{Parameter: "GPU0_CLAIM_NAME"},
		suffixed, suffixed, suffixed, suffixed, "root", "root",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	warned := strings.Join(b.Warnings, "\n")
	for _, want := range []string{"not dataVolumeTemplates: backup", "to which the VM refers: claim backup, source root"} {
		if !strings.Contains(warned, want) {
			t.Errorf("warnings %q, want %q", warned, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	cases := map[string]struct {
		vm      map[string]any
		options Options
		want    []string
	}{
		"kept volumes":      {withVolume("root"), Options{}, []string{"each namespace can have one VM of this template, and that of the source has it already: root, copy", "share these disks, which are not dataVolumeTemplates: other"}},
		"renamed volumes":   {withVolume("root"), Options{Rename: true}, []string{"not dataVolumeTemplates: other"}},
		"other namespace":   {vmOf(fields{"a": fields{"secretName": "s"}, "b": fields{"configMap": fields{"name": "c"}}, "d": fields{"multus": fields{"networkName": "n"}}, "e": fields{"multus": fields{"networkName": "x/n"}}}), Options{Namespace: "there"}, []string{"namespace there may lack objects to which the VM refers: configMap c, network n, secret s"}},
		"same namespace":    {vmOf(fields{"a": fields{"secretName": "s"}}), Options{Namespace: "here"}, nil},
		"commands":          {vmOf(fields{"p": fields{"exec": fields{"command": []any{"x", "y"}}}}), Options{}, []string{"spec.template.spec.p.exec.command may contain a secret"}},
		"DHCP":              {vmOf(fields{"dhcpOptions": fields{"privateOptions": []any{fields{"option": int64(224), "value": "x"}}}}), Options{}, []string{"privateOptions[0].value may contain a secret"}},
		"large":             {vmOf(fields{"a": int64(math.MaxInt64)}), Options{}, []string{"spec.template.spec.a is an integer that no parameter can hold"}},
		"secret in warning": {vmOf(fields{"volumes": []any{fields{"a": fields{"claimName": "hunter2-hunter2"}}}, "token": "hunter2-hunter2"}), Options{}, []string{"not dataVolumeTemplates: one that contains a secret"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := FromVM(c.vm, c.options)
			if err != nil {
				t.Fatal(err)
			}
			contains := cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) })
			if diff := cmp.Diff(c.want, b.Warnings, contains, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestSanitized(t *testing.T) {
	vm := vmOf(fields{"a": nil, "b": []any{nil}})
	vm["status"] = fields{"ready": true}
	vm["metadata"] = fields{"name": "vm", "uid": "u", "labels": fields{"a": "b", "kubevirt.io/vm-pool-revision-name": "p-1", "argocd.argoproj.io/instance": "shop", "app.kubernetes.io/instance": "shop"}, "annotations": fields{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "virtwright.dev/generate-template": "t", "virtwright.dev/provenance": "p",
		"virtwright.dev/presets": "kept", "restore.kubevirt.io/x": "x", "argocd.argoproj.io/tracking-id": "a", "meta.helm.sh/release-name": "r", "vm.kubevirt.io/validations": "kept",
	}}
	spec := vm["spec"].(map[string]any)
	spec["instancetype"] = fields{"name": "i", "revisionName": "r"}
	spec["template"].(map[string]any)["metadata"] = fields{"creationTimestamp": nil, "labels": fields{"c": "d", "kubevirt.io/vm-pool-revision-name": "p-1", "kapp.k14s.io/app": "1"}, "annotations": fields{"virtwright.dev/generate-template": "t", "x": "y"}}
	b, err := FromVM(vm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": fields{"generateName": "vm", "labels": fields{"a": "b"}, "annotations": fields{"virtwright.dev/presets": "kept", "vm.kubevirt.io/validations": "kept"}},
		"spec":     fields{"instancetype": fields{"name": "i"}, "template": fields{"metadata": fields{"labels": fields{"c": "d"}, "annotations": fields{"x": "y"}}, "spec": fields{"b": []any{nil}}}},
	}
	if diff := cmp.Diff(want, b.Source()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGenerateName(t *testing.T) {
	cases := map[string]struct {
		meta fields
		want string
	}{
		"only that": {fields{"generateName": "web-"}, "web-"},
		"both":      {fields{"generateName": "web-", "name": "web-12345"}, "web-12345"},
		"no name":   {fields{"generateName": "web-", "name": ""}, "web-"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			vm := vmOf(fields{"a": "x"})
			vm["metadata"] = c.meta
			b, err := FromVM(vm, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := field(b.VM, "metadata", "generateName"); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	list := func(n int) []any {
		items := make([]any, n)
		for i := range items {
			items[i] = "x"
		}
		return items
	}
	if _, err := FromVM(vmOf(fields{"a": list(maxParameters)}), Options{}); err != nil {
		t.Errorf("the maximum: %v", err)
	}
	literals := vmOf(fields{"a": list(maxParameters)})
	literals["spec"].(fields)["a"] = "${X}"
	many := vmOf(fields{"a": list(100_000)})
	for name, vm := range map[string]map[string]any{"leaves": many, "literals too": literals} {
		var large *TooLarge
		if _, err := FromVM(vm, Options{}); !errors.As(err, &large) || large.Parameters <= large.Most {
			t.Errorf("%s: got %v, want a TooLarge", name, err)
		}
	}
	if allocated := testing.AllocsPerRun(1, func() { _, _ = FromVM(many, Options{}) }); allocated > 50 {
		t.Errorf("%v allocations for a VM that is too large", allocated)
	}
	var deep any = "x"
	for range 1_000_000 {
		deep = []any{deep}
	}
	for name, vm := range map[string]map[string]any{
		"spec":        vmOf(fields{"a": deep}),
		"annotations": {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": fields{"name": "vm", "annotations": deep}, "spec": fields{"template": fields{"spec": fields{}}}},
	} {
		if _, err := FromVM(vm, Options{}); err == nil || !strings.Contains(err.Error(), "more than 500 levels") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
