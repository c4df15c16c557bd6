package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// drawn returns the outputs for people of the same arguments.
func drawn(t *testing.T, stdin string, args ...string) (page, picture outcome) {
	t.Helper()
	args = append([]string{"explain"}, args...)
	page, picture = call(t, stdin, append(args, "-o", "html")...), call(t, stdin, append(args, "-o", "svg")...)
	decoder := xml.NewDecoder(strings.NewReader(picture.out))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return page, picture
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v\n%s", err, picture.out)
		}
	}
}

func TestExplainDrawn(t *testing.T) {
	args := []string{"-f", oldAppliance, "-f", exampleVMs + "/worker.yaml", "-f", examplePresets, "-f", exampleNamespaces}
	page, picture := drawn(t, "", args...)
	says(t, page.fine(t).out, "<h1>VirtualMachine shop/old-appliance</h1>", "<h1>VirtualMachine lab/worker-1</h1>",
		"<del>bios: {}</del>", `<li class="origin-preset-override"><b>5</b> preset, override</li>`, `<li class="lost"><b>1</b> removed</li>`,
		`<div class="l origin-preset-override more"`, `<div class="l origin-preset-default"`, `<div class="l record"`, "The user wrote &#34;appliances&#34;. An override outranks the user.",
		"but the annotation virtwright.dev/exclude excludes it.", "Computed by the expression object.metadata.name &#43; &#39;-root&#39;",
		"<td>cluster/size-small<td>Enforce<td>no<td>labels do not match vm-size=small", "<h2>Warnings</h2>")
	says(t, picture.fine(t).out, ">VirtualMachine shop/old-appliance</text>", ">VirtualMachine lab/worker-1</text>", `<tspan class="code">bios: {}</tspan>`)
	if again, _ := drawn(t, "", args...); again != page {
		t.Error("the page differs from run to run")
	}
	page, picture = drawn(t, "", append(args[:2:2], append(args[4:], "spec.template.spec.priorityClassName")...)...)
	for _, out := range []string{page.fine(t).out, picture.fine(t).out} {
		says(t, out, "priorityClassName: production", "template:")
		if strings.Contains(out, "evictionStrategy:") {
			t.Errorf("it shows other fields:\n%s", out)
		}
	}
}

// TestExplainDrawnInstance limits the lines of a VMI by both forms of a path.
func TestExplainDrawnInstance(t *testing.T) {
	instance := strings.Replace(sparse, "Machine\n", "MachineInstance\n", 1)
	for _, path := range []string{"spec.domain.cpu", "spec.template.spec.domain.cpu"} {
		page, picture := drawn(t, instance, "-f", "-", "-f", write(t, "cores.yaml", cores), path)
		for _, out := range []string{page.fine(t).out, picture.fine(t).out} {
			says(t, out, "cores: 7", "threads: 1")
			if strings.Contains(out, "guest:") || strings.Contains(out, "kubevirt.io/v1") {
				t.Errorf("it shows other fields:\n%s", out)
			}
		}
	}
}

func TestExplainDrawnRejected(t *testing.T) {
	q53 := strings.Replace(small, "memory: {guest: 1Gi}", "memory: {guest: 1Gi}, machine: {type: q53}", 1)
	page, picture := drawn(t, q53, "-f", "-")
	for _, got := range []outcome{page, picture} {
		if got.code != exitRejected {
			t.Errorf("exit code %d, want %d", got.code, exitRejected)
		}
		says(t, got.out, "type: q53", "virtwright.dev/provenance")
	}
	says(t, page.out, "A cluster would reject this VM", "spec.template.spec.domain.machine.type: Unsupported value: &#34;q53&#34;")
	page, picture = drawn(t, "", "-f", exampleRejected+"/passthrough.yaml", "-f", examplePresets, "-f", exampleNamespaces)
	if page.code != exitRejected || picture.code != exitRejected || picture.out != "" {
		t.Errorf("exit codes %d and %d: %s", page.code, picture.code, picture.out)
	}
	says(t, page.out, "no passthrough in production")
}

// TestExplainDrawnStored shows a stored VM unchanged, with the fields that a reapply would change.
func TestExplainDrawnStored(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	page, picture := drawn(t, vm, "-f", "-", "-f", changed(t))
	says(t, page.fine(t).out, "cores: 7", "uid: 3a", ">the API server<", "Haswell", "Outdated fields", "<td>7<td>4<td>cores")
	says(t, picture.fine(t).out, "cores: 7")
	damaged := strings.Replace(vm, `{"v":1`, `{"v":`, 1)
	page, _ = drawn(t, damaged, "-f", "-")
	says(t, page.fine(t).out, `class="l origin-unknown"`, ">unknown<", "</b> unknown: the record cannot be read</li>")
}
