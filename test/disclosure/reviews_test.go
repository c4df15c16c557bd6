package disclosure

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
)

// What a stored VM holds, and what the author of a review may guess.
const (
	namespace = "shop"
	password  = "correct-horse"
	mac       = "02:00:00:00:00:07"
	firmware  = "5d307ca9-b3ef-428c-8861-06e72d69f223"
	volume    = "ledger-root"
)

// kinds are the kinds of objects by the end of a webhook's path.
var kinds = map[string]string{
	"virtualmachine": "VirtualMachine", "virtualmachineinstance": "VirtualMachineInstance",
	"virtualmachineinstancepreset": "VirtualMachineInstancePreset", "virtualmachinepreset": "VirtualMachinePreset",
	"clustervirtualmachinepreset": "ClusterVirtualMachinePreset", "virtualmachinetemplaterequest": "VirtualMachineTemplateRequest",
	"frontendprofile": "FrontendProfile", "backendprofile": "BackendProfile", "presetexception": "PresetException", "presetrollout": "PresetRollout",
	"eviction": "Eviction",
}

// A guesser makes reviews that probe for stored objects. Equal seeds make equal reviews.
type guesser struct{ *rand.Rand }

func (g guesser) pick(from ...any) any { return from[g.IntN(len(from))] }

// review returns a review for a webhook's path.
func (g guesser) review(path string) []byte {
	kind := kinds[path[strings.LastIndex(path, "-")+1:]]
	if kind == "" {
		panic("unknown path " + path)
	}
	group := map[bool]string{true: "kubevirt.io", false: "virtwright.dev"}[strings.Contains(path, "kubevirt-io")]
	object := g.object(kind)
	meta := object["metadata"].(map[string]any)
	request := map[string]any{
		"uid": "1", "kind": map[string]any{"group": group, "version": "v1", "kind": kind},
		"resource":  map[string]any{"group": group, "version": "v1", "resource": strings.ToLower(kind) + "s"},
		"operation": g.pick("CREATE", "CREATE", "UPDATE", "DELETE"), "namespace": namespace, "name": meta["name"],
		"dryRun":   g.IntN(2) == 0,
		"userInfo": map[string]any{"username": g.pick("eve", "system:serviceaccount:virtwright-system:virtwright"), "groups": []any{g.pick("system:masters", "system:authenticated")}},
	}
	switch request["operation"] {
	case "DELETE":
		request["oldObject"] = object
	case "UPDATE":
		request["object"], request["oldObject"] = object, g.object(kind)
	default:
		request["object"] = object
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		panic(err)
	}
	return text
}

func (g guesser) object(kind string) map[string]any {
	meta := map[string]any{"name": g.pick("ledger", "alone", "virt-launcher-outside", "free"), "namespace": namespace}
	if g.IntN(3) == 0 {
		meta["labels"] = map[string]any{"size": g.pick("small", "large")}
	}
	spec := map[string]any{}
	switch kind {
	case "VirtualMachine":
		spec = map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": g.guest()}}
		if g.IntN(2) == 0 {
			spec["dataVolumeTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": g.pick(volume, "another")}, "spec": map[string]any{
				"source": map[string]any{"blank": map[string]any{}}, "storage": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}}}
		}
	case "VirtualMachineInstance":
		spec = g.guest()
		if g.IntN(2) == 0 {
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "ledger", "controller": true,
				"uid": fmt.Sprintf("%08x-0000-4000-8000-000000000000", g.Uint32())}}
		}
	case "VirtualMachinePreset", "ClusterVirtualMachinePreset":
		maps.Copy(spec, g.preset())
	case "PresetException":
		spec = map[string]any{"presets": []any{g.pick("cluster/sized", "cluster/absent")}, "reason": "none"}
	case "PresetRollout":
		spec = map[string]any{"presets": []any{g.pick("cluster/sized", "cluster/absent")}, "waves": []any{map[string]any{"name": "all"}}}
	case "VirtualMachineTemplateRequest":
		spec = map[string]any{"vmName": meta["name"], "templateName": "copy"}
	}
	return map[string]any{"apiVersion": g.pick("kubevirt.io/v1", "virtwright.dev/v1alpha1"), "kind": kind, "metadata": meta, "spec": spec}
}

// guest returns the spec of a guest whose hardware may be that of a stored VM.
func (g guesser) guest() map[string]any {
	domain := map[string]any{"memory": map[string]any{"guest": g.pick("1Gi", "2Gi")}, "devices": map[string]any{}}
	out := map[string]any{"domain": domain, "hostname": g.pick("ledger", "host")}
	if g.IntN(2) == 0 {
		domain["firmware"] = map[string]any{"uuid": g.pick(firmware, "00000000-0000-4000-8000-000000000000")}
	}
	if g.IntN(2) == 0 {
		domain["devices"] = map[string]any{"interfaces": []any{map[string]any{"name": "default", "masquerade": map[string]any{}, "macAddress": g.pick(mac, "02:00:00:00:00:08")}}}
		out["networks"] = []any{map[string]any{"name": "default", "pod": map[string]any{}}}
	}
	return out
}

// preset returns the spec of a preset that asks for a part of a stored VM's password.
func (g guesser) preset() map[string]any {
	guess := password[:g.IntN(len(password))] + fmt.Sprint(g.pick("", "x"))
	condition := `object.?spec.?template.?spec.?volumes.orValue([]).exists(v, v.?cloudInitNoCloud.?userData.orValue("").contains("` + guess + `"))`
	return map[string]any{
		"match":  map[string]any{"conditions": []any{map[string]any{"name": "guess", "expression": g.pick(condition, `object.metadata.name.startsWith("led")`)}}},
		"forbid": []any{map[string]any{"path": g.pick("spec.runStrategy", "spec.template.spec.volumes")}},
		"mode":   g.pick("Enforce", "Audit"),
	}
}
