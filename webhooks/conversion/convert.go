// Package conversion converts VirtualMachines between versions of kubevirt.io. Versions v1 and
// v1alpha3 have the same form. Version v1alpha2 differs in two fields:
//
//   - a disk has its own name, and names its volume in volumeName; in v1 both have the same name;
//   - status.virtualMachine is the name of the VMI, once it is created.
//
// A round trip loses nothing: an annotation keeps the names of disks for which v1 has no field.
// Fields that v1alpha2 does not have are filled in on the way back.
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

// Convert returns a VirtualMachine, as decoded JSON, in another version. The result may share parts
// with the object, which is not changed. Values of unexpected types are kept for the schema to
// reject.
func Convert(object map[string]any, version string) (map[string]any, error) {
	from, _ := object["apiVersion"].(string)
	for _, v := range []string{from, version} {
		if !slices.Contains([]string{V1, V1Alpha3, V1Alpha2}, v) {
			return nil, fmt.Errorf("cannot convert a VirtualMachine from %q to %q: supported versions are %s, %s and %s", from, version, V1, V1Alpha3, V1Alpha2)
		}
	}
	out := maps.Clone(object)
	out["apiVersion"] = version
	switch {
	case from == V1Alpha2 && version != V1Alpha2:
		fromV1Alpha2(out)
	case from != V1Alpha2 && version == V1Alpha2:
		toV1Alpha2(out)
	}
	return out, nil
}

// fromV1Alpha2 converts a v1alpha2 object to v1.
func fromV1Alpha2(object map[string]any) {
	kept := read(object)
	own := names{}
	differ := map[string]bool{} // volumes with a disk of another name
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
	statusFromV1Alpha2(object)
}

// nameOf returns the name of a disk; nil if it has none. ok is false if the name is not a string.
func nameOf(disk map[string]any) (name *string, ok bool) {
	if text, isText := disk["name"].(string); isText {
		return &text, true
	}
	return nil, disk["name"] == nil
}

// volumeOf returns the volume of a v1alpha2 disk: volumeName, or else the name of the disk. It is
// "" if the schema will reject the disk.
func volumeOf(disk map[string]any) string {
	at := "volumeName"
	if v := disk[at]; v == nil || v == "" {
		at = "name"
	}
	volume, _ := disk[at].(string)
	return volume
}

// toV1Alpha2 converts a v1 object to v1alpha2.
func toV1Alpha2(object map[string]any) {
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
	statusToV1Alpha2(object)
	names{}.write(object, kept, false)
}

// statusFromV1Alpha2 removes status.virtualMachine if v1 implies it. Another value is kept, and
// dropped when v1 is stored.
func statusFromV1Alpha2(object map[string]any) {
	status, _ := object["status"].(map[string]any)
	if vmi, ok := status["virtualMachine"]; !ok || vmi != vmiName(object, status) {
		return
	}
	status = maps.Clone(status)
	delete(status, "virtualMachine")
	object["status"] = status
}

func statusToV1Alpha2(object map[string]any) {
	status, _ := object["status"].(map[string]any)
	vmi := vmiName(object, status)
	if _, given := status["virtualMachine"]; given || vmi == nil {
		return
	}
	status = maps.Clone(status)
	status["virtualMachine"] = vmi
	object["status"] = status
}

// vmiName returns the name of the VMI of a VM; nil if it is not created.
func vmiName(object, status map[string]any) any {
	meta, _ := object["metadata"].(map[string]any)
	if name, ok := meta["name"].(string); ok && status["created"] == true {
		return name
	}
	return nil
}

// editDisks replaces each disk by a copy that edit has changed.
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

// Path converts a path of v1 to a version of VirtualMachine.
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

// annotationsOf replaces the annotations of an object by a copy, and returns it.
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

const annotation = v1alpha1.AnnotationV1Alpha2DiskNames
