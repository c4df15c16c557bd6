package blueprint

import (
	"fmt"
	"slices"
	"strings"
)

func (d *draft) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// warnings says what is to be known before the template is used.
func warnings(d *draft) error {
	d.warnOfShared()
	d.warnOfNamespace()
	for _, s := range d.sites {
		if at := mayHoldSecrets(s.at); at != nil && s.class != Secret {
			d.warn("%s may hold a secret, and is in the template", at)
		}
	}
	for i, warning := range d.warnings {
		if _, found := d.tracer.InName(warning); found {
			d.warnings[i] = "a warning is withheld, as it names something that holds the value of a secret"
		}
	}
	return nil
}

// named are names, but those in which a secret is.
func (d *draft) named(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if _, found := d.tracer.InValue(name); found {
			name = "one that holds the value of a secret"
		}
		out = append(out, name)
	}
	return slices.Compact(out)
}

// mayHoldSecrets is where a scalar stands that may hold one among other text, nil
// if it is none; of a command it is told once.
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

// warnOfShared tells of disks that are there once, and that each VM would use.
func (d *draft) warnOfShared() {
	var shared []string
	for _, s := range d.sites {
		if text, ok := s.value.(string); ok && namesVolume(s.at) && !slices.Contains(d.volumes, text) {
			shared = append(shared, text)
		}
	}
	if len(shared) > 0 {
		slices.Sort(shared)
		d.warn("all VMs of this template share disks that are no dataVolumeTemplates: %s", strings.Join(d.named(slices.Compact(shared)), ", "))
	}
}

// warnOfNamespace lists what another namespace may lack.
func (d *draft) warnOfNamespace() {
	if d.options.Namespace == "" || d.options.Namespace == d.namespace {
		return
	}
	var lacking []string
	for _, s := range d.sites {
		text, ok := s.value.(string)
		if kind := d.namespaced(s.at, text); ok && text != "" && kind != "" && !slices.Contains(lacking, kind+" "+text) {
			lacking = append(lacking, kind+" "+text)
		}
	}
	if len(lacking) > 0 {
		slices.Sort(lacking)
		d.warn("the namespace %s may lack what the VM refers to in its own: %s", d.options.Namespace, strings.Join(d.named(lacking), ", "))
	}
}

// namespaced is the kind of what a text names in the VM's namespace; empty if
// it names nothing there.
func (d *draft) namespaced(at path, text string) string {
	switch {
	case slices.Contains(d.volumes, text) && d.refersToVolume(&site{at: at, value: text}):
		return ""
	case namesVolume(at):
		return "claim"
	case at.ends("source", "pvc", "name"), volumeSource(at), at.ends("source", "snapshot", "name"), at.ends("sourceRef", "name"):
		if d.here(at) {
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

// matcher is the kind of an instancetype or preference of the VM's namespace.
func (d *draft) matcher(at path) string {
	kind, _ := field(d.tree, "spec", at[1].key, "kind").(string)
	if strings.EqualFold(kind, "VirtualMachine"+at[1].key) {
		return at[1].key
	}
	return ""
}
