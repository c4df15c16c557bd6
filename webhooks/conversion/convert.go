// Package conversion turns VirtualMachines of one version of kubevirt.io into
// another. Versions v1 and v1alpha3 have one form. Version v1alpha2 differs in
// two things:
//
//   - a disk has a name of its own, and names its volume in volumeName; in v1
//     both are one name;
//   - status.virtualMachine is the name of the instance, once it is created.
//
// Nothing is lost on the way there and back: the names of disks that v1 has no
// place for are kept in an annotation. What v1alpha2 leaves out comes back filled in.
package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Versions of kubevirt.io between which a VirtualMachine can be converted.
const (
	V1       = "kubevirt.io/v1"
	V1Alpha3 = "kubevirt.io/v1alpha3"
	V1Alpha2 = "kubevirt.io/v1alpha2"
)

// Convert returns a VirtualMachine, as decoded JSON, in another version. It may
// share parts with the object and changes neither. What is of an unexpected type
// stays as it is, for the schema to refuse.
func Convert(object map[string]any, version string) (map[string]any, error) {
	from, _ := object["apiVersion"].(string)
	for _, v := range []string{from, version} {
		if !slices.Contains([]string{V1, V1Alpha3, V1Alpha2}, v) {
			return nil, fmt.Errorf("cannot convert a VirtualMachine from %q to %q: want two of %s, %s and %s", from, version, V1, V1Alpha3, V1Alpha2)
		}
	}
	out := maps.Clone(object)
	out["apiVersion"] = version
	switch {
	case from == V1Alpha2 && version != V1Alpha2:
		fromSeed(out)
	case from != V1Alpha2 && version == V1Alpha2:
		toSeed(out)
	}
	return out, nil
}

// fromSeed turns a v1alpha2 object into the form of v1.
func fromSeed(object map[string]any) {
	kept := read(object)
	own := names{}
	differ := map[string]bool{} // volumes of which some disk has another name
	editDisks(object, func(disk map[string]any) {
		name, ok := nameOf(disk)
		volume := volumeOf(disk)
		if !ok || volume == "" {
			return
		}
		delete(disk, "volumeName")
		disk["name"] = volume
		own.Disks = append(own.Disks, diskName{Volume: volume, Name: name})
		if name == nil || *name != volume || kept.mentions(volume) {
			differ[volume] = true
		}
	})
	own.Disks = slices.DeleteFunc(own.Disks, func(d diskName) bool { return !differ[d.Volume] })
	own.write(object, kept, true)
	statusFromSeed(object)
}

// nameOf is the name of a disk, nil for none; not ok for what is no name.
func nameOf(disk map[string]any) (name *string, ok bool) {
	if text, isText := disk["name"].(string); isText {
		return &text, true
	}
	return nil, disk["name"] == nil
}

// volumeOf is the volume of a v1alpha2 disk: the one it names, or the one of
// its own name; empty for what the schema will refuse.
func volumeOf(disk map[string]any) string {
	at := "volumeName"
	if v := disk[at]; v == nil || v == "" {
		at = "name"
	}
	volume, _ := disk[at].(string)
	return volume
}

// toSeed turns an object in the form of v1 into a v1alpha2 object.
func toSeed(object map[string]any) {
	kept := read(object)
	editDisks(object, func(disk map[string]any) {
		volume, ok := disk["name"].(string)
		if !ok || volume == "" || disk["volumeName"] != nil {
			return
		}
		disk["volumeName"] = volume
		if name, known := kept.take(volume); known {
			if delete(disk, "name"); name != nil {
				disk["name"] = *name
			}
		}
	})
	statusToSeed(object)
	names{}.write(object, kept, false)
}

// statusFromSeed takes status.virtualMachine away where it says what v1 says
// too. What says something else stays, and is dropped where v1 is stored: of
// that, users have no say.
func statusFromSeed(object map[string]any) {
	status, _ := object["status"].(map[string]any)
	if instance, ok := status["virtualMachine"]; !ok || instance != derived(object, status) {
		return
	}
	status = maps.Clone(status)
	delete(status, "virtualMachine")
	object["status"] = status
}

func statusToSeed(object map[string]any) {
	status, _ := object["status"].(map[string]any)
	instance := derived(object, status)
	if _, given := status["virtualMachine"]; given || instance == nil {
		return
	}
	status = maps.Clone(status)
	status["virtualMachine"] = instance
	object["status"] = status
}

// derived is the name of the instance of a VM, once it is created; nil before.
func derived(object, status map[string]any) any {
	meta, _ := object["metadata"].(map[string]any)
	if name, ok := meta["name"].(string); ok && status["created"] == true {
		return name
	}
	return nil
}

// editDisks calls edit with a copy of each disk, which takes its place.
func editDisks(object map[string]any, edit func(disk map[string]any)) {
	at := object
	for _, name := range []string{"spec", "template", "spec", "domain", "devices"} {
		next, ok := at[name].(map[string]any)
		if !ok {
			return
		}
		next = maps.Clone(next)
		at[name] = next
		at = next
	}
	disks, ok := at["disks"].([]any)
	if !ok {
		return
	}
	disks = slices.Clone(disks)
	at["disks"] = disks
	for i := range disks {
		if disk, ok := disks[i].(map[string]any); ok {
			disk = maps.Clone(disk)
			edit(disk)
			disks[i] = disk
		}
	}
}

// Path is the path, in a version of VirtualMachine, of what lies at a path of v1.
func Path(version, path string) string {
	const disks = "spec.template.spec.domain.devices.disks["
	rest, ok := strings.CutPrefix(path, disks)
	if version != V1Alpha2 || !ok {
		return path
	}
	if index, found := strings.CutSuffix(rest, "].name"); found && !strings.Contains(index, "]") {
		return disks + index + "].volumeName"
	}
	return path
}

// annotationsOf returns the annotations of an object, copied, and sets them.
func annotationsOf(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	if meta = maps.Clone(meta); meta == nil {
		meta = map[string]any{}
	}
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations = maps.Clone(annotations); annotations == nil {
		annotations = map[string]any{}
	}
	meta["annotations"], object["metadata"] = annotations, meta
	return annotations
}

const annotation = v1alpha1.AnnotationSeedNames
