package fleet

import (
	"maps"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

var (
	volumes      = provenance.Of("spec", "template", "spec", "volumes")
	guestDisks   = provenance.Of("spec", "template", "spec", "domain", "devices", "disks")
	interfaces   = provenance.Of("spec", "template", "spec", "domain", "devices", "interfaces")
	networks     = provenance.Of("spec", "template", "spec", "networks")
	hotpluggable = []string{".persistentVolumeClaim.hotpluggable", ".dataVolume.hotpluggable"}
)

// plugs describes the volumes and networks that KubeVirt can plug into a running VMI, and unplug.
// Source: syncRestartRequired of KubeVirt 1.9's virt-controller.
type plugs struct {
	before, after map[string]presets.Origin
}

func newPlugs(before []presets.Origin, after map[string]presets.Origin) plugs {
	out := plugs{make(map[string]presets.Origin, len(before)), maps.Clone(after)}
	for _, o := range before {
		out.before[o.Path.String()] = o
	}
	return out
}

// effect returns the effect of a change that KubeVirt plugs. ok is false for all other changes.
func (p plugs) effect(path provenance.Path) (effect Effect, ok bool) {
	for _, list := range []provenance.Path{volumes, guestDisks} {
		if name, _ := elementIn(path, list); name != "" {
			return EffectNone, p.isPluggable(name)
		}
	}
	for _, list := range []provenance.Path{interfaces, networks} {
		if name, rest := elementIn(path, list); name != "" {
			return p.networkEffect(name, rest)
		}
	}
	return "", false
}

// isPluggable reports whether the volume of a change can be plugged. That of an absent one counts
// as it was.
func (p plugs) isPluggable(name string) bool {
	fields := p.after
	if !exists(fields, volumes, name) {
		fields = p.before
	}
	for _, field := range hotpluggable {
		if fields[volumes.String()+"["+name+"]"+field].Value == true {
			return true
		}
	}
	return false
}

// networkEffect returns the effect on an interface or its network: KubeVirt migrates a VMI to
// connect it to another network. It never plugs the pod network, and unplugs by the state only.
func (p plugs) networkEffect(name, rest string) (Effect, bool) {
	switch was, is := exists(p.before, networks, name), exists(p.after, networks, name); {
	case was && is && rest == ".multus.networkName", !was && is && !hasPodNetwork(p.after, name):
		return EffectMigration, true
	case was && is && rest == ".state":
		return EffectNone, true
	}
	return "", false
}

func hasPodNetwork(fields map[string]presets.Origin, name string) bool {
	pod := networks.String() + "[" + name + "].pod"
	for path := range fields {
		if path == pod || len(path) > len(pod) && path[:len(pod)+1] == pod+"." {
			return true
		}
	}
	return false
}

// exists reports whether a list has an element with a name.
func exists(fields map[string]presets.Origin, list provenance.Path, name string) bool {
	return fields[list.String()+"["+name+"].name"].Value != nil
}

// elementIn returns the name of the element of a list that a path is in, and the rest of the path.
func elementIn(path, list provenance.Path) (name, rest string) {
	if len(path) <= len(list) || !path.HasPrefix(list) {
		return "", ""
	}
	element := path[len(list)]
	prefix := path[:len(list)+1].String()
	return element.Name, path.String()[len(prefix):]
}
