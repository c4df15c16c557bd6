package simulate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate/manifest"
)

type role int

const (
	unknown role = iota
	preset
	legacyPreset
	profile // or a PresetRollout
	vmOrVMI
	namespace
	instancetype
	exception
	// policy is a ValidatingAdmissionPolicy or a binding.
	policy
	// mutatingPolicy is a MutatingAdmissionPolicy or a binding, which are not evaluated.
	mutatingPolicy
	// parameter is an object of another kind that a policy uses.
	parameter
)

const (
	kubevirtGroup     = "kubevirt.io"
	instancetypeGroup = "instancetype.kubevirt.io"
	virtwrightGroup   = "virtwright.dev"
	kindLegacy        = "VirtualMachineInstancePreset"
)

var kinds = map[schema.GroupKind]struct {
	role     role
	versions []string
}{
	{Group: virtwrightGroup, Kind: v1alpha1.KindVirtualMachinePreset}:        {preset, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindClusterVirtualMachinePreset}: {preset, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindPresetException}:             {exception, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindFrontendProfile}:             {profile, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindBackendProfile}:              {profile, []string{"v1alpha1"}},
	{Group: virtwrightGroup, Kind: v1alpha1.KindPresetRollout}:               {profile, []string{"v1alpha1"}},
	{Group: kubevirtGroup, Kind: kindLegacy}:                                 {legacyPreset, []string{"v1", "v1alpha3"}},
	{Group: kubevirtGroup, Kind: "VirtualMachine"}:                           {vmOrVMI, []string{"v1", "v1alpha3", "v1alpha2"}},
	{Group: kubevirtGroup, Kind: "VirtualMachineInstance"}:                   {vmOrVMI, []string{"v1", "v1alpha3"}},
	{Kind: "Namespace"}:                                                   {namespace, []string{"v1"}},
	{Group: policyGroup, Kind: kindPolicy}:                                {policy, policyVersions},
	{Group: policyGroup, Kind: kindBinding}:                               {policy, policyVersions},
	{Group: policyGroup, Kind: kindMutating}:                              {mutatingPolicy, policyVersions},
	{Group: policyGroup, Kind: kindMutating + "Binding"}:                  {mutatingPolicy, policyVersions},
	{Group: instancetypeGroup, Kind: "VirtualMachineInstancetype"}:        {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachineClusterInstancetype"}: {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachinePreference"}:          {instancetype, []string{"v1beta1"}},
	{Group: instancetypeGroup, Kind: "VirtualMachineClusterPreference"}:   {instancetype, []string{"v1beta1"}},
}

var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

// otherKinds are the unsupported kinds of KubeVirt in kubevirtGroup.
var otherKinds = []string{"KubeVirt", "VirtualMachineInstanceMigration", "VirtualMachineInstanceReplicaSet"}

const kindNames = "VirtualMachine, VirtualMachineInstance, VirtualMachinePreset, ClusterVirtualMachinePreset, VirtualMachineInstancePreset, PresetException, PresetRollout, FrontendProfile, BackendProfile, Namespace, ValidatingAdmissionPolicy with bindings and parameters, or an instancetype or preference of KubeVirt"

// unsupportedKinds says which unsupported kinds are errors.
type unsupportedKinds int

const (
	rejectNone     unsupportedKinds = iota
	rejectMisspelt                  // those of virtwright, and misspelt kinds and groups
	rejectLone                      // also, in files that the user named, kinds of a misspelt group, and all if nothing is supported there
	rejectNamed                     // also all in files that the user named
)

// check returns an error if an object of an unsupported kind must not be ignored. Alone says
// that its file has no supported object.
func (u unsupportedKinds) check(o manifest.Object, kind schema.GroupKind, alone bool) error {
	near, supported := nearestKind(kind), versionOf(kind.Kind)
	switch {
	case u == rejectNone:
		return nil
	case kind.Group == virtwrightGroup || near != "":
		return unsupported(o, "kind", "unsupported kind %s of %s%s", o.Kind, o.APIVersion, near)
	case supported != "" && (o.Named && u >= rejectLone || isMisspelt(kind.Group, supported)):
		return unsupported(o, "kind", "unsupported kind %s of %s: use %s", o.Kind, o.APIVersion, supported)
	case o.Named && (u == rejectNamed || u == rejectLone && alone):
		return unsupported(o, "kind", "unsupported kind %s of %s: supported kinds: %s", o.Kind, o.APIVersion, kindNames)
	default:
		return nil
	}
}

// isMisspelt reports whether a group is empty, has another one in front, or differs from that of an
// apiVersion by a typo in its first word, or after that word.
func isMisspelt(group, apiVersion string) bool {
	full, _, _ := strings.Cut(apiVersion, "/")
	is, _, _ := strings.Cut(group, ".")
	want, _, _ := strings.Cut(full, ".")
	return is == "" || strings.HasSuffix(group, "."+full) || spelling.Distance(is, want) <= 2
}

// versionOf returns the apiVersion of the kind with a name, for a misspelt group.
func versionOf(name string) string {
	for known, its := range kinds {
		if known.Kind == name && known.Group != "" { // others have a Namespace, too
			return schema.GroupVersion{Group: known.Group, Version: its.versions[0]}.String()
		}
	}
	return ""
}

// nearestKind returns a hint if virtwright or KubeVirt has a supported kind with a similar name.
func nearestKind(kind schema.GroupKind) string {
	if kind.Group != virtwrightGroup && kind.Group != kubevirtGroup || strings.HasSuffix(kind.Kind, "List") {
		return ""
	}
	names := slices.Clone(otherKinds)
	for known := range kinds {
		if known.Group == kind.Group {
			names = append(names, known.Kind)
		}
	}
	near := cmp.Or(spelling.Nearest(kind.Kind, slices.Values(names)), unabbreviated(kind.Kind, names))
	if near == "" || slices.Contains(otherKinds, near) {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// unabbreviated returns the shortest kind with all words of a name, in any order but with the same
// end, such as ClusterVirtualMachinePreset for ClusterPreset and VirtualMachineClusterPreset.
func unabbreviated(name string, kinds []string) string {
	words := wordsOf(name)
	if len(words) == 0 {
		return ""
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, kind := range kinds {
		if all := wordsOf(kind); all[len(all)-1] == words[len(words)-1] && sets.New(all...).HasAll(words...) {
			return kind
		}
	}
	return ""
}

func wordsOf(name string) []string { return camelCaseWord.FindAllString(name, -1) }

var camelCaseWord = regexp.MustCompile(`[A-Z][a-z]+`)
