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
	const depth = 9_900 // decoders reject more than 10,000
	deep := func(open, inside, end string) string {
		return strings.Repeat(open, depth) + inside + strings.Repeat(end, depth)
	}
	return map[string]string{
		"deep lists":           vm(`,"x":`+deep("[", "", "]"), `"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"a","x":`+deep("[", "", "]")+`}]}},"x":`+deep("[", "", "]")),
		"deep objects":         vm(`,"x":`+deep(`{"a":`, "0", "}"), `"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"a","x":`+deep(`{"a":`, "0", "}")+`}]}},"x":`+deep(`{"a":`, "0", "}")),
		"dense objects":        vm("", `"domain":{"memory":{"guest":"1Gi"}},"x":[`+strings.TrimSuffix(strings.Repeat(strings.Repeat(`{"a":`, 90)+"0"+strings.Repeat("}", 90)+",", 500), ",")+`]`),
		"HTML":                 vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat("<", 3_000_000)+`"}}]`),
		"6.9 MB of text":       vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat("x", 6_900_000)+`"}}]`),
		"6.9 MB of commas":     vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat(",", 6_900_000)+`"}}]`),
		"labels of 1 MB":       vm(`,"labels":{`+repeat(1_000_000, `"label-%05d":"value"`)+`}`, `"domain":{"memory":{"guest":"1Gi"}}`),
		"escaped text":         vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat(`\u0041`, 400_000)+`"}}]`),
		"65,000 disks":         vm("", `"domain":{"memory":{"guest":"1Gi"},"devices":{"disks":[`+repeat(size, `{"name":"disk-%05d","disk":{"bus":"sata"}}`)+`]}}`),
		"99,000 labels":        vm("", `"domain":{"memory":{"guest":"1Gi"}},"nodeSelector":{`+repeat(size, `"label-%05d":"value-of-the-label"`)+`}`),
		"a string of 2.6 MB":   vm("", `"domain":{"memory":{"guest":"1Gi"}},"volumes":[{"name":"a","cloudInitNoCloud":{"userData":"`+strings.Repeat("x,{[", size/4)+`"}}]`),
		"reserved annotations": vm(`,"annotations":{`+repeat(size, `"virtwright.dev/l%d":""`)+`}`, `"domain":{"memory":{"guest":"1Gi"}}`),
		"a huge exclusion":     vm(`,"annotations":{"virtwright.dev/exclude":"`+repeat(size, `a:verylong[%d]`)+`"}`, `"domain":{"memory":{"guest":"1Gi"}}`),
		"dense small objects":  vm("", `"domain":{"memory":{"guest":"1Gi"}},"nodeSelector":{`+repeat(30_000, `"%d":""`)+`}`),
	}
}

// presetShapes are specs of hostile presets, as JSON. Each costs most in another place.
func presetShapes() map[string]string {
	numbered := func(n int, separator, format string) string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(out, separator)
	}
	labels := func(n int, value string) string {
		part := func(prefix string) string {
			return `{"metadata":{"labels":{` + numbered(n, ",", `"`+prefix+`%d":`+value) + `}}}`
		}
		return `{"overrides":` + part("o") + `,"defaults":` + part("d") + `}`
	}
	computed := func(n int, expression string) string { return labels(n, `{"$cel":"`+expression+`"}`) }
	conditions := func(n int, expression string) string {
		return `{"defaults":{"spec":{"runStrategy":"Halted"}},"match":{"conditions":[` + numbered(n, ",", `{"name":"c%d","expression":"`+expression+`"}`) + `]}}`
	}
	list := "[" + numbered(60, ",", "%d") + "]"
	return map[string]string{
		"32 computed labels":      computed(16, "object.metadata.?name.orValue('x').lowerAscii()"),
		"64 chains of macros":     computed(64, "object.metadata.?labels"+strings.Repeat(".optMap(x,x)", 7)+".hasValue() ? 'a' : 'b'"),
		"32 constants":            computed(16, list+".all(a, "+list+".all(b, a == b || true)) ? 'a' : 'b'"),
		"conditions of 14 kB":     conditions(30, numbered(450, " && ", "object.metadata.name != 'a%d'")),
		"conditions at the limit": conditions(6, numbered(28, " && ", "object.metadata.?labels.?a%d.orValue('') != 'x'")),
		"deep CEL":                conditions(30, "object.metadata.name == 'a' || "+strings.Repeat("[", 80)+strings.Repeat("]", 80)+" == []"),
		"regular expressions":     conditions(30, "object.metadata.name.matches('("+strings.Repeat("a", 500)+"){1000}')"),
		"1,000 labels":            labels(500, `""`),
		"9,000 labels":            labels(9_000, `""`),
	}
}
