package render

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/hypervisor"
)

// A document is a domain that something of ours has written.
type document struct {
	name, text string
}

// schema is libvirt's own, as Debian installs it.
const schema = "/usr/share/libvirt/schemas/domain.rng"

// A novelty is something that libvirt knows from a version on. Debian 12 has
// 9.0.
type novelty struct {
	since string
	// strip finds it, and instead stands in its place in a domain for older ones.
	strip   *regexp.Regexp
	instead string
}

// novelties are what domains of ours may have that libvirt 9.0 rejects. A domain with one of them
// must be rejected with it, and accepted without.
var novelties = []novelty{
	{"10.0.0, several I/O threads for a disk", regexp.MustCompile(`(?s)<iothreads>\s*<iothread .*?</iothreads>`), ""},
	{"10.5.0, SEV-SNP", regexp.MustCompile(`(?s)<launchSecurity type="sev-snp".*?</launchSecurity>`), ""},
	{"10.9.0, panic device of PCI", regexp.MustCompile(`<panic model="pvpanic"></panic>`), ""},
	{"11.0.0, parts of tlbflush", regexp.MustCompile(`(?s)(<tlbflush state="\w+">).+?</tlbflush>`), "$1</tlbflush>"},
	{"11.1.0, passt by vhost-user", regexp.MustCompile(`(?s)<interface type="vhostuser">.*?</interface>`), ""},
	{"11.2.0, table MSDM", regexp.MustCompile(`<table type="msdm">[^<]*</table>`), ""},
	{"11.5.0, granularity of discards", regexp.MustCompile(` discard_granularity="\d+"`), ""},
	{"11.6.0, TDX", regexp.MustCompile(`(?s)<launchSecurity type="tdx".*?</launchSecurity>`), ""},
}

// ofOld is a domain as libvirt 9.0 knows all of it, and the novelties that it had.
func ofOld(text string) (string, []string) {
	var had []string
	for _, n := range novelties {
		if n.strip.MatchString(text) {
			had = append(had, n.since)
			text = n.strip.ReplaceAllString(text, n.instead)
		}
	}
	return text, had
}

// goldenDomains are what the tests of stage 3 and of the command line have written.
func goldenDomains(t *testing.T) []document {
	t.Helper()
	var out []document
	for _, pattern := range []string{"../../domain/testdata/*.out.xml", "../../cmd/virtwright/testdata/render/*.out.xml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no golden domains: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, document{strings.TrimSuffix(filepath.Base(file), ".out.xml"), string(text)})
		}
	}
	return out
}

// comparedDomains are the domains of the VMIs that TestDifferencesFromKubeVirtAreExplained
// compares.
func comparedDomains(t *testing.T) []document {
	t.Helper()
	var out []document
	for _, file := range comparedInstances(t) {
		out = append(out, document{strings.TrimSuffix(filepath.Base(file), ".yaml"), rendered(t, file)})
	}
	return out
}

// TestSchema holds every domain against libvirt's schema.
func TestSchema(t *testing.T) {
	hypervisor.Require(t)
	dir := t.TempDir()
	documents := slices.Concat(goldenDomains(t), comparedDomains(t))
	args := []string{"--noout", "--relaxng", schema}
	add := func(name, text string) string {
		file := filepath.Join(dir, name+".xml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
		return file
	}
	whole, old := map[string]string{}, map[string]string{}
	for _, d := range documents {
		whole[d.name] = add(d.name, d.text)
		if text, had := ofOld(d.text); len(had) > 0 {
			old[d.name] = add(d.name+".old", text)
		}
	}
	out, _ := exec.CommandContext(t.Context(), "xmllint", args...).CombinedOutput()
	said := string(out)
	valid := func(file string) bool { return strings.Contains(said, file+" validates\n") }
	for _, d := range documents {
		file := whole[d.name]
		if stripped := old[d.name]; stripped != "" {
			_, had := ofOld(d.text)
			if valid(file) {
				t.Errorf("%s: the schema accepts elements that are listed as newer: %v", d.name, had)
			}
			file = stripped
		}
		if !valid(file) {
			t.Errorf("%s: the schema rejects it:\n%s", d.name, about(said, file))
		}
	}
	page, err := os.ReadFile(differencesPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range novelties {
		if !strings.Contains(string(page), "| "+n.since+" |") {
			t.Errorf("%s does not tell people that %s is new", differencesPage, n.since)
		}
	}
	t.Logf("%d domains, %d of them with something newer than the schema", len(documents), len(old))
}

// about are the lines about a file.
func about(said, file string) string {
	var out []string
	for line := range strings.Lines(said) {
		if what, ours := strings.CutPrefix(line, file); ours {
			out = append(out, strings.TrimSpace(what))
		}
	}
	return strings.Join(out, "\n")
}

// unemulated are golden domains that QEMU of this machine cannot be asked about, by what libvirt
// says.
var unemulated = map[string]string{
	"qemu/backend-host-side":       "Cannot check QEMU binary /opt/qemu/bin/qemu-system-x86_64",
	"qemu/backend-launch-security": "SEV launch security is not supported with this QEMU binary",
	"qemu/launch-security-sev":     "SEV launch security is not supported with this QEMU binary",
	"qemu/launch-security-sev-es":  "SEV launch security is not supported with this QEMU binary",
}

// TestDefine lets libvirt's test driver and its QEMU driver judge every domain of amd64. Domains
// for hardware virtualization are asked about as emulated ones, since the machines of tests have
// none.
func TestDefine(t *testing.T) {
	d := hypervisor.Start(t)
	documents := slices.DeleteFunc(slices.Concat(goldenDomains(t), comparedDomains(t)), func(doc document) bool {
		return !strings.Contains(doc.text, `arch="x86_64"`)
	})
	t.Run("drivers", func(t *testing.T) { // which are asked at the same time
		for driver, uri := range map[string]string{"test": d.TestURI, "qemu": d.URI} {
			t.Run(driver, func(t *testing.T) {
				t.Parallel()
				for _, doc := range documents {
					define(t, d, driver, uri, doc)
				}
			})
		}
	})
}

// define lets a driver judge a domain.
func define(t *testing.T, d *hypervisor.Daemon, driver, uri string, doc document) {
	t.Helper()
	old, _ := ofOld(doc.text)
	text := strings.Replace(old, `<domain type="kvm"`, `<domain type="qemu"`, 1)
	if driver == "test" {
		text = strings.Replace(text, `<domain type="qemu"`, `<domain type="test"`, 1)
	}
	err := d.DefineValidated(uri, text)
	why, exempt := unemulated[driver+"/"+doc.name]
	switch {
	case err != nil && !exempt:
		t.Errorf("%s: the %s driver rejects it: %v", doc.name, driver, err)
	case err == nil && exempt:
		t.Errorf("%s is said to be rejected by the %s driver (%s), which accepts it: take it out of the list", doc.name, driver, why)
	case exempt && !strings.Contains(err.Error(), why):
		t.Errorf("%s is to be rejected by the %s driver for %q: %v", doc.name, driver, why, err)
	}
	if err == nil && driver == "qemu" {
		undefine(t, d, text)
	}
}

func undefine(t *testing.T, d *hypervisor.Daemon, text string) {
	t.Helper()
	_, after, _ := strings.Cut(text, "<name>")
	name, _, _ := strings.Cut(after, "</name>")
	if _, err := d.Virsh("undefine", "--nvram", name); err != nil {
		t.Error(err)
	}
}

// laboratory is a profile under which this machine can start what it renders: everything lies below
// a folder, and nothing needs a privilege.
const laboratory = `
apiVersion: virtwright.dev/v1alpha1
kind: BackendProfile
metadata: {name: laboratory}
spec:
  priority: 1000
  softwareEmulation: Allow
  networks: [{network: "*", type: User}]
  paths:
    sockets: %[1]s/{namespace}_{name}
    nvram: %[1]s/{namespace}_{name}/vars.fd
    hostDisk: %[1]s/{namespace}_{name}/{volume}.img
    claim: %[1]s/{namespace}_{name}/{volume}.img
    containerDisk: %[1]s/{namespace}_{name}/{volume}.base
    overlay: %[1]s/{namespace}_{name}/{volume}.qcow2
    emptyDisk: %[1]s/{namespace}_{name}/{volume}.qcow2
    cloudInit: %[1]s/{namespace}_{name}/{volume}.iso
    data: %[1]s/{namespace}_{name}/{volume}.iso
---
apiVersion: virtwright.dev/v1alpha1
kind: FrontendProfile
metadata: {name: laboratory}
spec:
  priority: 1000
  match: {architectures: [amd64]}
  machine: pc-q35-7.2
`

// ofHost is what few machines have: devices, CPUs by number, huge pages, block devices and
// emulators of other architectures.
var ofHost = regexp.MustCompile(`<(hostdev|vcpupin|hugepages|source dev=)|arch="(aarch64|s390x)"`)

// TestStart starts, paused, what this machine can emulate of the examples and of the VMIs that are
// compared.
func TestStart(t *testing.T) {
	d := hypervisor.Start(t)
	profiles := filepath.Join(t.TempDir(), "profiles.yaml")
	facts := filepath.Join(t.TempDir(), "facts.yaml")
	for file, content := range map[string]string{profiles: fmt.Sprintf(laboratory, d.Dir), facts: "kvm: false\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	examples, err := filepath.Glob("../../examples/vms/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range slices.Concat(examples, comparedInstances(t)) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := rendered(t, file, "-f", "../../examples/presets", "-f", "../../examples/namespaces.yaml", "-f", profiles, "--facts", facts)
			if found := ofHost.FindString(text); found != "" {
				t.Skipf("it has something of a host: %s", found)
			}
			old, _ := ofOld(text)
			if err := start(t, d, old); err != nil {
				t.Errorf("%v\n%s", err, old)
			}
		})
	}
}

// start makes the files that a domain names, starts it with its processors stopped, and ends it.
// The error is that of the start.
func start(t *testing.T, d *hypervisor.Daemon, text string) error {
	t.Helper()
	domain := parse(t, text)
	name := leaf(domain, "name")
	dir := filepath.Join(d.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, image := range images(domain) {
		args := []string{"create", "-q", "-f", image.format, image.file, "64M"}
		if image.backing != "" {
			qemuImage(t, "create", "-q", "-f", image.backingFormat, image.backing, "64M")
			args = []string{"create", "-q", "-f", image.format, "-b", image.backing, "-F", image.backingFormat, image.file}
		}
		qemuImage(t, args...)
	}
	if err := d.Own(dir); err != nil {
		t.Fatal(err)
	}
	file, err := d.File(name+"-*.xml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Virsh("create", "--paused", "--validate", file); err != nil {
		return err
	}
	if _, err := d.Virsh("destroy", name); err != nil {
		t.Error(err)
	}
	return nil
}

func qemuImage(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
}

// An image is a file that a disk of a domain lies in.
type image struct{ file, format, backing, backingFormat string }

func images(domain *element) []image {
	var out []image
	for _, disk := range all(domain, "disk") {
		one := image{format: "raw", backingFormat: "raw"}
		for _, child := range disk.children {
			switch child.name {
			case "source":
				one.file = child.attrs["file"]
			case "driver":
				one.format = child.attrs["type"]
			case "backingStore":
				for _, of := range child.children {
					switch of.name {
					case "source":
						one.backing = of.attrs["file"]
					case "format":
						one.backingFormat = of.attrs["type"]
					}
				}
			}
		}
		if one.file != "" {
			out = append(out, one)
		}
	}
	return out
}

// all are the elements of a name below e.
func all(e *element, name string) []*element {
	var out []*element
	for _, child := range e.children {
		if child.name == name {
			out = append(out, child)
		} else {
			out = append(out, all(child, name)...)
		}
	}
	return out
}

// leaf is the text of the first child of a name.
func leaf(e *element, name string) string {
	for _, child := range e.children {
		if child.name == name {
			return child.text
		}
	}
	return ""
}
