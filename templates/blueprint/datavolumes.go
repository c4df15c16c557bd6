package blueprint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	suffixExpression = "[a-z0-9]{5}"
	maxName          = 253
	suffixLength     = len("-12345")
)

var volumeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// dataVolumes adds a generated suffix to the names of dataVolumeTemplates and references to them,
// or warns that they are shared.
func dataVolumes(d *draft) error {
	for _, s := range d.sites {
		if text, ok := s.value.(string); ok && isDataVolumeName(s.at) && !slices.Contains(d.volumes, text) {
			d.volumes = append(d.volumes, text)
		}
	}
	if len(d.volumes) == 0 {
		return nil
	}
	if !d.options.Rename {
		d.warn("dataVolumeTemplates keep their names, so each namespace can have one VM of this template, and that of the source has it already: %s", strings.Join(d.withoutSecrets(d.volumes), ", "))
		return nil
	}
	return d.rename()
}

func (d *draft) rename() error {
	for _, s := range d.sites {
		if !d.refersToVolume(s) {
			continue
		}
		text := s.text()
		if s.class == Secret && !s.commonWord || !volumeName.MatchString(text) {
			return fmt.Errorf("%s cannot have a suffix: it is not a valid name, or contains a secret", d.shown(s.at))
		}
		if len(text)+suffixLength > maxName {
			return fmt.Errorf("%s cannot have a suffix: it would be longer than %d characters", d.shown(s.at), maxName)
		}
		s.class, s.prefix = Generated, text+"-"
	}
	return nil
}

func isDataVolumeName(at path) bool {
	return at.is("spec", "dataVolumeTemplates", "[]", "metadata", "name")
}

func (d *draft) refersToVolume(s *site) bool {
	text, ok := s.value.(string)
	if !ok || !slices.Contains(d.volumes, text) {
		return false
	}
	switch {
	case isDataVolumeName(s.at), namesVolume(s.at):
		return true
	case s.at.is("spec", "dataVolumeTemplates", "[]", "spec", "source", "pvc", "name"), d.namesSource(s.at):
		return d.isLocal(s.at)
	}
	return false
}

// namesVolume reports whether a path is the name of a DataVolume or claim in a volume. (claimName
// of devices is a claim of resources.)
func namesVolume(at path) bool {
	if !at.inInstance() {
		return false
	}
	switch within := at[len(instance):]; {
	case within.begins("volumes", "[]"):
		return at.ends("dataVolume", "name") || at.ends("claimName")
	default:
		return within.is("utilityVolumes", "[]", "claimName")
	}
}

// namesSource reports whether a path is the name of a claim that fills a dataVolumeTemplate.
func (d *draft) namesSource(at path) bool {
	if !volumeSource(at) {
		return false
	}
	source := d.parent(at)
	group, _ := field(source, "apiGroup").(string)
	return group == "" && field(source, "kind") == "PersistentVolumeClaim"
}

// volumeSource reports whether a path is the name of a data source in the claim of a
// dataVolumeTemplate.
func volumeSource(at path) bool {
	return len(at) == 7 && at.begins("spec", "dataVolumeTemplates", "[]", "spec", "*", "*", "name") &&
		(at[4].key == "pvc" || at[4].key == "storage") && (at[5].key == "dataSource" || at[5].key == "dataSourceRef")
}

func (d *draft) parent(at path) any {
	var tree any = d.tree
	for _, s := range at[:len(at)-1] {
		if list, ok := tree.([]any); ok {
			tree = list[s.index]
		} else {
			tree = field(tree, s.key)
		}
	}
	return tree
}

// isLocal reports whether the object around a path names no other namespace.
func (d *draft) isLocal(at path) bool {
	namespace := field(d.parent(at), "namespace")
	return namespace == nil || namespace == "" || namespace == d.namespace
}
