package blueprint

import (
	"fmt"
	"slices"
	"strings"
)

func (d *draft) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// warnings adds warnings about shared disks, missing objects and possible secrets.
func warnings(d *draft) error {
	d.warnOfShared()
	d.warnOfNamespace()
	for _, s := range d.sites {
		if at := mayHoldSecrets(s.at); at != nil && s.class != Secret {
			d.warn("%s may contain a secret and is part of the template", at)
		}
	}
	for i, warning := range d.warnings {
		if _, found := d.finder.Find(warning, true); found {
			d.warnings[i] = "a warning is omitted because it would contain a secret"
		}
	}
	return nil
}

func (d *draft) withoutSecrets(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if _, found := d.finder.Find(name, false); found {
			name = "one that contains a secret"
		}
		out = append(out, name)
	}
	return slices.Compact(out)
}

// mayHoldSecrets returns the path of a field that may contain a secret among other text, once for
// each command; nil for other fields.
func mayHoldSecrets(at path) path {
	switch {
	case at.ends("metadata", "annotations", "hooks.kubevirt.io/hookSidecars"), at.inInstance() && at.ends("kernelBoot", "kernelArgs"):
		return at
	case at.inInstance() && at.ends("privateOptions", "[]", "value"):
		return at
	case at.inInstance() && at.ends("exec", "command", "[]") && at[len(at)-1].index == 0:
		return at[:len(at)-1]
	}
	return nil
}

func (d *draft) warnOfShared() {
	var shared []string
	for _, s := range d.sites {
		if text, ok := s.value.(string); ok && namesVolume(s.at) && !slices.Contains(d.volumes, text) {
			shared = append(shared, text)
		}
	}
	if len(shared) > 0 {
		slices.Sort(shared)
		d.warn("all VMs of this template share these disks, which are not dataVolumeTemplates: %s", strings.Join(d.withoutSecrets(slices.Compact(shared)), ", "))
	}
}

func (d *draft) warnOfNamespace() {
	if d.options.Namespace == "" || d.options.Namespace == d.namespace {
		return
	}
	var missing []string
	for _, s := range d.sites {
		text, ok := s.value.(string)
		if kind := d.namespaced(s.at, text); ok && text != "" && kind != "" && !slices.Contains(missing, kind+" "+text) {
			missing = append(missing, kind+" "+text)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		d.warn("namespace %s may lack objects to which the VM refers: %s", d.options.Namespace, strings.Join(d.withoutSecrets(missing), ", "))
	}
}

// namespaced returns the kind of the object in the VM's namespace that a text names; empty if it
// names none.
func (d *draft) namespaced(at path, text string) string {
	switch {
	case slices.Contains(d.volumes, text) && d.refersToVolume(&site{at: at, value: text}):
		return ""
	case namesVolume(at):
		return "claim"
	case at.ends("source", "pvc", "name"), volumeSource(at), at.ends("source", "snapshot", "name"), at.ends("sourceRef", "name"):
		if d.isLocal(at) {
			return "source"
		}
	case at.is("spec", "instancetype", "name"), at.is("spec", "preference", "name"):
		return d.matcher(at)
	case at.inInstance():
		return inInstance(at, text)
	}
	return ""
}

func inInstance(at path, text string) string {
	switch {
	case at.ends("secretName"), at.ends("secretRef", "name"), at.ends("userDataSecretRef", "name"), at.ends("networkDataSecretRef", "name"):
		return "secret"
	case at.ends("configMap", "name"), at.ends("sysprep", "configMap", "name"):
		return "configMap"
	case at.ends("resourceClaimName"), at.ends("resourceClaimTemplateName"):
		return "resourceClaim"
	case at.ends("serviceAccountName"):
		return "serviceAccount"
	case at.ends("multus", "networkName") && !strings.Contains(text, "/"):
		return "network"
	}
	return ""
}

func (d *draft) matcher(at path) string {
	kind, _ := field(d.tree, "spec", at[1].key, "kind").(string)
	if strings.EqualFold(kind, "VirtualMachine"+at[1].key) {
		return at[1].key
	}
	return ""
}
