package format_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// A maker generates difficult VirtualMachines.
type maker struct {
	*rand.Rand
	secrets []string
}

func newMaker(seed uint64) *maker {
	m := &maker{Rand: rand.New(rand.NewPCG(20260731, seed))}
	for range 2 {
		m.secrets = append(m.secrets, fmt.Sprintf("s3cr€t\n\"%d\" <&> ~~~\n", m.Uint64()))
	}
	return m
}

var hostile = []string{
	"${HOME}", "${{LABELS}}", "${LABELS}", "${A${B}}", "${DISK0_BUS} and ${MEMORY_GUEST}", "${{DISK0_BUS}}", "a${{X}}", "${NAME}", "$", "${", "}", "${}", "$${X}", "${LITERAL0}", "${DATA_VOLUME_SUFFIX}",
	"null", "true", "1e400", "0123", "8", `"true"`, "{}", "[1]", "~", "off", "0x1f", "1_000", "- a", "a: b", "# c", "'", `\`, "\t", " lead", "trail ", "\u2028", "\u0085", "\r\n", "line\nnext\n", "\x00", "\ufeff", "<<", "=", "yes", ">|",
	"ünïcödé 😀", "virtio", "10Gi", "http", "",
}

var keys = []string{
	"domain", "devices", "disks", "disk", "bus", "name", "cpu", "cores", "memory", "guest", "firmware", "uuid", "serial", "chassis", "asset", "hostname", "interfaces", "macAddress", "ports", "volumes", "dataVolume",
	"persistentVolumeClaim", "claimName", "livenessProbe", "readinessProbe", "httpGet", "httpHeaders", "value", "port", "nodeSelector", "tolerations", "userData", "userDataBase64", "networkData", "password", "token", "session", "dhCert",
	"annotations", "metadata", "addresses", "capabilities", "a.b/c", "a-b/c", "a_b_c", "A.B.C", "1", "", "ключ", "labels", "literal0", "LITERAL0", "LABELS", "NAME", "dataVolumeSuffix", "port_2", "PORT", "b", "B", "b_2", "b_3", "status", "kind", "apiVersion", "items", "namespace",
	"kubectl.kubernetes.io/last-applied-configuration", "null", "true", "<<", "~", "-", "secureBoot", "ramFB", "base64Data", "hugepages-2Mi",
}

// hostileKeys are rare, because few formats support them.
var hostileKeys = []string{"${X}", "${{X}}", "${DISK0_BUS}", "${{MEMORY_GUEST}}", "${A${B}}", "${", "${CPU_CORES} ${CPU_CORES_2}", "${LABELS}", "${{LABELS}}", "${DATA_VOLUME_SUFFIX}", "${LITERAL0}"}

func pick[T any](m *maker, of []T) T { return of[m.IntN(len(of))] }

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func (m *maker) text() string {
	switch n := m.IntN(1000); {
	case n < 12:
		return m.spelled(pick(m, m.secrets))
	case n < 15:
		return strings.Repeat(pick(m, hostile), 300)
	case n < 200:
		return fmt.Sprintf("v%d", m.IntN(50))
	case n < 300:
		return pick(m, hostile) + pick(m, hostile)
	}
	return pick(m, hostile)
}

// spelled returns an encoding of a text.
func (m *maker) spelled(text string) string {
	spellings := []func(string) string{
		func(text string) string { return "x" + text + "y" },
		func(text string) string { return strings.TrimSuffix(text, "\n") },
		func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
		func(text string) string { return "a: |\n  " + strings.ReplaceAll(text, "\n", "\n  ") },
		func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) },
		func(text string) string { return "prefix " + base64.URLEncoding.EncodeToString([]byte("more"+text)) },
		func(text string) string {
			encoded := base64.StdEncoding.EncodeToString([]byte(text))
			return encoded[:len(encoded)/2] + "\n" + encoded[len(encoded)/2:] + "\n"
		},
	}
	for range m.IntN(3) {
		text = pick(m, spellings)(text)
	}
	return text
}

func (m *maker) scalar() any {
	switch m.IntN(12) {
	case 0:
		return m.IntN(2) == 0
	case 1:
		return int64(m.IntN(100))
	case 2:
		return pick(m, []int64{1 << 53, 1<<53 + 1, -(1 << 53), -(1 << 53) - 1, 1<<63 - 1, -1 << 63, 0, -1})
	case 3:
		return pick(m, []float64{0.1, 1.5, 1e22, 1e300, math.Copysign(0, -1), 5e-324, 1, 1 << 60, 3.141592653589793})
	case 4:
		return nil
	}
	return m.text()
}

func (m *maker) key() string {
	switch n := m.IntN(2000); {
	case n < 4:
		return pick(m, hostileKeys)
	case n < 5:
		return "key " + pick(m, m.secrets)
	}
	return pick(m, keys)
}

// secret is a value under a key whose values are withheld.
func (m *maker) secret(key string) any {
	text := pick(m, m.secrets)
	switch {
	case m.chance(30):
		text = m.text()
	case m.chance(10):
		text = pick(m, []string{"", "short", "12345678"})
	}
	if strings.HasSuffix(key, "Base64") && m.chance(80) {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return text
}

func (m *maker) tree(depth int) any {
	switch n := m.IntN(10); {
	case depth == 0 || n < 3:
		return m.scalar()
	case n < 5:
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.tree(depth-1))
		}
		return list
	}
	return m.fields(depth)
}

func (m *maker) fields(depth int) map[string]any {
	fields := map[string]any{}
	for range m.IntN(5) {
		key := m.key()
		switch {
		case strings.HasPrefix(key, "userData") || key == "password" || key == "token" || key == "networkData" || key == "session":
			fields[key] = m.secret(key)
		case key == "name":
			fields[key] = m.text()
		default:
			fields[key] = m.tree(depth - 1)
		}
	}
	return fields
}

func (m *maker) texts(keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if m.chance(20) {
			out[key] = m.text()
		}
	}
	return out
}

func (m *maker) annotations() map[string]any {
	return m.texts("kubectl.kubernetes.io/last-applied-configuration", "kubevirt.io/latest-observed-api-version", "restore.kubevirt.io/x", "virtwright.dev/generate-template", "virtwright.dev/presets",
		"virtwright.dev/provenance", "kubevirt.io/ignitiondata", "hooks.kubevirt.io/hookSidecars", "example.com/a", "example.com/b", "example.com/ssh-Key", "example.com/password")
}

func (m *maker) name() string { return pick(m, []string{"root", "data", "disk-0", "a.b"}) }

func (m *maker) dataVolumes() []any {
	list := []any{}
	for range m.IntN(3) {
		name := m.name()
		if m.chance(2) {
			name = m.text()
		}
		source := map[string]any{"http": map[string]any{
			"url":          pick(m, []string{"https://example.com/a.img", "https://u:" + "p4ssw0rd@example.com/a", "https://example.com/a?sig=0123456789abcdef", "::", m.text()}),
			"extraHeaders": []any{m.secret("extraHeaders")},
		}}
		if m.chance(50) {
			source = map[string]any{"pvc": map[string]any{"name": m.name(), "namespace": pick(m, []any{nil, "here", "there", ""})}}
		}
		list = append(list, map[string]any{"metadata": map[string]any{"name": name, "creationTimestamp": nil, "annotations": m.annotations()}, "spec": map[string]any{
			"source": source, "storage": m.tree(2),
			"pvc": map[string]any{pick(m, []string{"dataSource", "dataSourceRef"}): map[string]any{
				"kind": pick(m, []string{"PersistentVolumeClaim", "VolumeSnapshot"}), "name": m.name(), "namespace": pick(m, []any{nil, "here", "there"}),
			}},
		}})
	}
	return list
}

func (m *maker) vm() map[string]any {
	spec := m.fields(1 + m.IntN(3))
	domain := m.fields(1 + m.IntN(2))
	domain["firmware"] = m.texts("uuid", "serial")
	domain["devices"] = map[string]any{"interfaces": []any{map[string]any{"name": "default", "macAddress": m.text()}}, "disks": m.tree(2)}
	spec["domain"] = domain
	spec["hostname"] = m.text()
	spec["volumes"] = []any{
		map[string]any{"name": m.name(), "dataVolume": map[string]any{"name": m.name()}},
		map[string]any{"name": m.name(), "persistentVolumeClaim": map[string]any{"claimName": m.name()}},
		map[string]any{"name": "c", "cloudInitNoCloud": map[string]any{"userDataBase64": m.secret("userDataBase64")}},
	}
	spec["utilityVolumes"] = []any{map[string]any{"name": "u", "claimName": m.name()}}
	spec["livenessProbe"] = map[string]any{"httpGet": map[string]any{"port": m.scalar(), "path": "/ready" + pick(m, []string{"", "?", "?" + m.text()}), "httpHeaders": []any{map[string]any{"name": pick(m, []string{"A", "Authorization", "host", "User-Agent"}), "value": m.secret("value")}}}}
	meta := map[string]any{"name": pick(m, []string{"vm-a", "vm-b", "${HOME}", "${LABELS}"}), "namespace": "here", "uid": "1", "finalizers": []any{"x"}, "annotations": m.annotations()}
	if m.chance(70) {
		labels := map[string]any{}
		for range m.IntN(4) { // often exactly one
			labels[pick(m, []string{"app", "os", "example.com/x", "ключ"})] = pick(m, []string{"", "a", "true", "8", "null"})
		}
		meta["labels"] = labels
	}
	return map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": meta, "status": m.tree(1),
		"spec": map[string]any{
			"runStrategy": "Always", "dataVolumeTemplates": m.dataVolumes(), "instancetype": m.texts("name", "revisionName"), "running": m.scalar(),
			"template": map[string]any{"metadata": map[string]any{"creationTimestamp": nil, "annotations": m.annotations(), "labels": m.texts("a", "b")}, "spec": spec},
		},
	}
}

// copied copies a value of JSON deeply.
func copied(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, child := range value {
			out[key] = copied(child)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, child := range value {
			out[i] = copied(child)
		}
		return out
	}
	return value
}
