package presets

import (
	"strings"
	"testing"
)

func TestUnguarded(t *testing.T) {
	for text, want := range map[string]string{
		"true":                                  "",
		"object.metadata.labels['tier'] == 'x'": "object.metadata.labels object.metadata.labels.tier",
		"object.metadata.labels.tier == 'x'":    "object.metadata.labels object.metadata.labels.tier",
		"has(object.metadata.labels) && object.metadata.labels.tier == 'x'":                                        "object.metadata.labels.tier",
		"has(object.metadata.labels) && has(object.metadata.labels.tier) && object.metadata.labels.tier == 'x'":    "",
		"has(object.metadata.labels) && 'tier' in object.metadata.labels && object.metadata.labels['tier'] == 'x'": "",
		"object.metadata.?labels.?tier.orValue('') == 'x'":                                                         "",
		"object.metadata.?labels[?'a/b'].orValue('') == 'x'":                                                       "",
		"object.metadata.?labels['a/b'].orValue('') == 'x'":                                                        "",
		"object.metadata.?labels.?tier.value() == 'x'":                                                             "object.metadata.labels object.metadata.labels.tier",
		"object.metadata.?labels.?tier.hasValue() && object.metadata.labels.tier == 'x'":                           "",
		"!has(object.spec.running) || object.spec.running":                                                         "",
		"has(object.spec.running) ? object.spec.running : false":                                                   "",
		"has(object.spec.running) ? false : object.spec.running":                                                   "object.spec.running",
		"object.spec.running":                                                     "object.spec.running",
		"!object.spec.running":                                                    "object.spec.running",
		"object.spec.running || true":                                             "",
		"object.metadata.namespace == 'lab'":                                      "",
		"object.metadata.name == 'lab'":                                           "object.metadata.name",
		"namespaceObject.metadata.annotations['net'] == 'x'":                      "namespaceObject.metadata.annotations.net",
		"namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'lab'": "",
		"has(object.spec.template.spec.domain.devices.tpm)":                       "",
		"has(object.spec.template.spec.domain.cpu.cores)":                         "object.spec.template.spec.domain.cpu",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, has(v.hostDisk))":            "",
		"object.spec.template.spec.volumes.exists(v, has(v.hostDisk))":                                                      "object.spec.template.spec.volumes",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, v.name == 'root')":           "",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.all(v, v.containerDisk.image != 'x')":  "object.spec.template.spec.volumes[].containerDisk object.spec.template.spec.volumes[].containerDisk.image",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.filter(v, has(v.hostDisk)).size() > 1": "",
		"object.spec.template.spec.domain.devices.?disks.orValue([]).all(d, !has(d.bootOrder) || d.bootOrder == 1)":         "",
		"object.metadata.?labels.?tier.optMap(t, t == 'x').orValue(false)":                                                  "",
		"[object.spec.running].size() == 1":                         "object.spec.running",
		"{'a': object.spec.running}.size() == 1":                    "object.spec.running",
		"object.metadata.labels[object.metadata.namespace] == 'x'":  "object.metadata.labels",
		"int(object.metadata.?annotations.?cores.orValue('1')) > 2": "",
	} {
		var got []string
		for _, selection := range unguarded(text) {
			got = append(got, celPath(selection))
		}
		if env, err := conditionEnv(); err != nil {
			t.Fatal(err)
		} else if _, issues := env.Compile(text); issues.Err() != nil {
			t.Errorf("%s: %v", text, issues.Err())
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: unguarded %q, want %q", text, g, want)
		}
	}
}

func TestGuardAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"object.metadata.labels['tier'] == 'x'": "object.metadata.labels may be absent, and the expression then fails; " +
			"write has(object.metadata.labels) && has(object.metadata.labels.tier) && (object.metadata.labels['tier'] == 'x')",
		"has(object.metadata.labels) && object.metadata.labels['example.com/tier'] == 'x'": "object.metadata.labels['example.com/tier'] may be absent, and the expression then fails; " +
			"write has(object.metadata.labels) && 'example.com/tier' in object.metadata.labels && (has(object.metadata.labels) && object.metadata.labels['example.com/tier'] == 'x')",
		"object.spec.template.spec.?volumes.orValue([]).exists(v, v.containerDisk.image == 'x')": "",
		"has(object.spec.template.spec.volumes) && object.spec.template.spec.volumes.exists(v, v.containerDisk.image == 'x')": "object.spec.template.spec.volumes[].containerDisk may be absent, " +
			"and the expression then fails; test it first, as in has(x.containerDisk) && has(x.containerDisk.image) && …",
	} {
		selections := unguarded(text)
		if len(selections) == 0 {
			if want != "" {
				t.Errorf("%s: no advice, want %q", text, want)
			}
			continue
		}
		got := guardAdvice(selections, text, "")
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
		if _, guarded, ok := strings.Cut(got, "; write "); ok {
			if left := unguarded(guarded); len(left) > 0 {
				t.Errorf("%s: the guarded form %s still fails without %q", text, guarded, left)
			}
		}
	}
}
