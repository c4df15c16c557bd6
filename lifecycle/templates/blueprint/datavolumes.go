package blueprint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	suffixExpression = "[a-z0-9]{5}"
	longestName      = 253
	longestSuffix    = len("-12345")
)

var volumeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// dataVolumes gives the names of dataVolumeTemplates, and what refers to them, a
// generated suffix, if asked; otherwise it says what keeping them means.
func dataVolumes(d *draft) error {
	for _, s := range d.sites {
		if text, ok := s.value.(string); ok && templateName(s.at) && !slices.Contains(d.volumes, text) {
			d.volumes = append(d.volumes, text)
		}
	}
	if len(d.volumes) == 0 {
		return nil
	}
	if !d.options.Rename {
		d.warn("dataVolumeTemplates keep their names, so all VMs of this template in one namespace share their disks: %s", strings.Join(d.named(d.volumes), ", "))
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
		if s.class == Secret && !s.word || !volumeName.MatchString(text) {
			return fmt.Errorf("%s cannot have a suffix: it is no name, or holds the value of a secret", d.shown(s.at))
		}
		if len(text)+longestSuffix > longestName {
			return fmt.Errorf("%s cannot have a suffix: it would be longer than %d characters", d.shown(s.at), longestName)
		}
		s.class, s.before = Generated, text+"-"
	}
	return nil
}

func templateName(at path) bool {
	return at.is("spec", "dataVolumeTemplates", "[]", "metadata", "name")
}

// refersToVolume says whether a site is the name of a dataVolumeTemplate.
func (d *draft) refersToVolume(s *site) bool {
	text, ok := s.value.(string)
	if !ok || !slices.Contains(d.volumes, text) {
		return false
	}
	switch {
	case templateName(s.at), namesVolume(s.at):
		return true
	case s.at.is("spec", "dataVolumeTemplates", "[]", "spec", "source", "pvc", "name"), d.namesSource(s.at):
		return d.here(s.at)
	}
	return false
}

// namesVolume says whether a DataVolume or a claim is named here by a volume.
// (claimName of devices is that of a claim of resources.)
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

// namesSource says whether a claim is named here of which a dataVolumeTemplate
// is filled.
func (d *draft) namesSource(at path) bool {
	if !volumeSource(at) {
		return false
	}
	source := d.parent(at)
	group, _ := field(source, "apiGroup").(string)
	return group == "" && field(source, "kind") == "PersistentVolumeClaim"
}

// volumeSource says whether something is named here of which Kubernetes fills the
// claim of a dataVolumeTemplate.
func volumeSource(at path) bool {
	return len(at) == 7 && at.begins("spec", "dataVolumeTemplates", "[]", "spec", "*", "*", "name") &&
		(at[4].key == "pvc" || at[4].key == "storage") && (at[5].key == "dataSource" || at[5].key == "dataSourceRef")
}

// parent is the map or list in which a path ends.
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

// here says whether the map in which a path ends names no other namespace.
func (d *draft) here(at path) bool {
	namespace := field(d.parent(at), "namespace")
	return namespace == nil || namespace == "" || namespace == d.namespace
}
