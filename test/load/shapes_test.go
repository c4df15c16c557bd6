package load

import (
	"fmt"
	"strings"
)

// conversions is a ConversionReview of many VMs, each as large as a VM may be.
func conversions() string {
	object := strings.Replace(shapes()["99,000 labels"], "kubevirt.io/v1", "kubevirt.io/v1alpha2", 1)
	objects := strings.TrimSuffix(strings.Repeat(object+",", 31_000_000/len(object)), ",")
	return `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"kubevirt.io/v1","objects":[` + objects + `]}}`
}

// shapes are hostile objects, as large as API servers accept. Each costs most in another place.
func shapes() map[string]string {
	const size = 2_600_000
	repeat := func(bytes int, format string) string {
		var out strings.Builder
		for i := 0; out.Len() < bytes; i++ {
			fmt.Fprintf(&out, format+",", i)
		}
		return strings.TrimSuffix(out.String(), ",")
	}
	vm := func(meta, spec string) string {
		return `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a","namespace":"load"` + meta +
			`},"spec":{"runStrategy":"Halted","template":{"spec":{` + spec + `}}}}`
	}
	return map[string]string{
		"65,000 disks":         vm("", `"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[`+repeat(size, `{"name":"disk-%05d","disk":{"bus":"sata"}}`)+`]}}`),
		"99,000 labels":        vm("", `"domain":{"memory":{"guest":"1Gi"}},"nodeSelector":{`+repeat(size, `"label-%05d":"value-of-the-label"`)+`}`),
		"a string of 2.6 MB":   vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat("x,{[", size/4)+`"}}]`),
		"reserved annotations": vm(`,"annotations":{`+repeat(size, `"virtwright.dev/l%d":""`)+`}`, `"domain":{"memory":{"guest":"1Gi"}}`),
		"a huge exclusion":     vm(`,"annotations":{"virtwright.dev/exclude":"`+repeat(size, `a:verylong[%d]`)+`"}`, `"domain":{"memory":{"guest":"1Gi"}}`),
		"dense small objects":  vm("", `"domain":{"memory":{"guest":"1Gi"}},"nodeSelector":{`+repeat(30_000, `"%d":""`)+`}`),
	}
}
