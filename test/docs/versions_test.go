package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// required are the texts that name the version of a module or a setting. In the text, %s stands for
// the version, as a go.mod file or another file has it. In the file it is the first group.
var required = []struct{ page, text, file, version string }{
	{"docs/compatibility.md", `\| Kubernetes \| %s and later; .*`, "charts/virtwright/Chart.yaml", `(?m)^kubeVersion: ">=(\d+\.\d+)\.0-0"$`},
	{"docs/compatibility.md", `\| Kubernetes \|.*\| %s \|.*`, "test/controlplane/bin/go.mod", module("k8s.io/kubernetes")},
	{"docs/compatibility.md", `\| Kubernetes \|.*\| %s \|.*`, "test/kind/bin/kubernetes/go.mod", module("k8s.io/kubernetes")},
	{"docs/compatibility.md", `\| Helm \|.*\| %s \|.*`, "test/chart/tool/go.mod", module("helm.sh/helm/v3")},
	{"docs/compatibility.md", `\| cert-manager \|.*\| %s \|.*`, "go.mod", module("github.com/cert-manager/cert-manager")},
	{"docs/compatibility.md", `\| cert-manager \|.*\| %s \|.*`, "test/kind/bin/certmanager/go.mod", module("github.com/cert-manager/cert-manager")},
	{"docs/compatibility.md", `\| cert-manager \|.*\| %s \|.*`, "test/kind/bin/certmanager-webhook/go.mod", module("github.com/cert-manager/cert-manager")},
	{"docs/compatibility.md", `\| CEL functions in presets \| all functions of %s on .*`, "go.mod", minor("k8s.io/apiserver v0")},
	{"docs/compatibility.md", `\| types, schemas and defaults of VMs \| %s \|.*`, "go.mod", module("kubevirt.io/api")},
	{"docs/compatibility.md", `\| libvirt domains, .* \| %s \|.*`, "test/render/kubevirt/go.mod", module("kubevirt.io/kubevirt")},
	{"docs/compatibility.md", `\| virt-api, .* \| %s \|.*`, "test/kubevirt/bin/go.mod", module("kubevirt.io/kubevirt")},
	{"docs/compatibility.md", `With %s, .*`, "test/kubevirt/bin/v1.8.mod", module("kubevirt.io/kubevirt")},
	{"docs/compatibility.md", `\| types of DataVolumes \| %s \|.*`, "go.mod", module("kubevirt.io/containerized-data-importer-api")},
	{"docs/compatibility.md", `.* \| 9\.0 and 7\.2, of %s \|.*`, "test/kind/cmd/image/launcher.go", `Release: +"(\w+)"`},
	{"docs/compatibility.md", `.* \| containerd 1\.6 of %s \|.*`, "test/kind/cluster/userland.go", `release = "(\w+)"`},
	{"docs/compatibility.md", `\| Go, .* \| %s and later \|.*`, "go.mod", `(?m)^go (\d+\.\d+)`},
	{"docs/compatibility.md", `\| Argo CD \|.*\| %s \|.*`, "test/gitops/argocd/go.mod", module("github.com/argoproj/argo-cd/v3")},
	{"docs/compatibility.md", "\\| Flux \\|.*`pkg/ssa` %s \\|.*", "test/gitops/flux/go.mod", module("github.com/fluxcd/pkg/ssa")},
	{"docs/compatibility.md", `\| kind, .*\| %s \|.*`, "test/kind/tool/go.mod", module("sigs.k8s.io/kind")},
	{"docs/gitops-argocd.md", `.*Argo CD %s .*`, "test/gitops/argocd/go.mod", module("github.com/argoproj/argo-cd/v3")},
	{"docs/gitops-flux.md", ".*`github.com/fluxcd/pkg/ssa` %s .*", "test/gitops/flux/go.mod", module("github.com/fluxcd/pkg/ssa")},
	{"docs/kind.md", `.*KIND_NODE_IMAGE=kindest/node:v%s .*`, "test/kind/bin/kubernetes/go.mod", module("k8s.io/kubernetes")},
	{"docs/policies.md", `.*CEL functions are those of Kubernetes %s\..*`, "go.mod", minor("k8s.io/apiserver v0")},
	{"README.md", `.*You need .*Go %s .*`, "go.mod", `(?m)^go (\d+\.\d+)`},
	{".github/workflows/ci.yml", `.*golang:%s-bookworm`, "go.mod", `(?m)^go (\d+\.\d+)`},
	{".github/workflows/release.yml", `.*golang:%s-bookworm`, "go.mod", `(?m)^go (\d+\.\d+)`},
	{"README.md", `.*tests run Kubernetes %s .*`, "test/controlplane/bin/go.mod", minor("k8s.io/kubernetes v1")},
	{"README.md", `.*the chart accepts %s .*`, "charts/virtwright/Chart.yaml", `(?m)^kubeVersion: ">=(\d+\.\d+)\.0-0"$`},
	{"README.md", `.*KubeVirt %s\. .*`, "test/render/kubevirt/go.mod", minor("kubevirt.io/kubevirt v1")},
	{"README.md", `.*KubeVirt %s\. .*`, "test/kubevirt/bin/go.mod", minor("kubevirt.io/kubevirt v1")},
	{"README.md", `.*young: version %s, .*`, "charts/virtwright/Chart.yaml", `(?m)^version: (\d+\.\d+)`},
}

// module matches the version of a module in a go.mod file.
func module(path string) string {
	return `(?m)^(?:require|\t)\s*` + regexp.QuoteMeta(path) + ` v(\S+)`
}

// minor matches the minor version of a module, whose path ends with the major version.
func minor(path string) string {
	return `(?m)^(?:require|\t)\s*` + regexp.QuoteMeta(path) + `\.(\d+)\.`
}

// TestVersions checks that pages name the versions that the tests run and that the chart accepts. A
// version with three numbers on the page of versions is one of them.
func TestVersions(t *testing.T) {
	var known []string
	for _, r := range required {
		found := regexp.MustCompile(r.version).FindStringSubmatch(read(t, r.file))
		if found == nil {
			t.Errorf("%s has no version: %s", r.file, r.version)
			continue
		}
		version := strings.Replace(found[1], "bookworm", "Debian 12", 1)
		if _, err := strconv.Atoi(version); err == nil { // a minor version of Kubernetes 1 or KubeVirt 1
			version = "1." + version
		}
		known = append(known, version)
		if want := fmt.Sprintf(r.text, regexp.QuoteMeta(version)); !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(read(t, r.page)) {
			t.Errorf("%s: no line matches %s (%s)", r.page, want, r.file)
		}
	}
	for _, version := range regexp.MustCompile(`\d+\.\d+\.\d+`).FindAllString(read(t, "docs/compatibility.md"), -1) {
		if !slices.Contains(known, version) {
			t.Errorf("docs/compatibility.md: %s is not the version of a module", version)
		}
	}
}

// TestUpgradePage checks that the chart's minor version has a page on the upgrade to it, and that
// readers find the page.
func TestUpgradePage(t *testing.T) {
	version := regexp.MustCompile(`(?m)^version: ((\d+\.\d+)\.\d+)$`).FindStringSubmatch(read(t, "charts/virtwright/Chart.yaml"))
	page := "upgrading/" + version[2] + ".md"
	for _, section := range []string{"Before the upgrade", "After the upgrade", "Go back", "Tests"} {
		if !strings.Contains(read(t, "docs/"+page), "\n## "+section+"\n") {
			t.Errorf("docs/%s has no section %s", page, section)
		}
	}
	for _, from := range []string{"docs/README.md", "docs/operations.md"} {
		if !strings.Contains(read(t, from), "]("+page+")") {
			t.Errorf("%s has no link to %s", from, page)
		}
	}
	section := regexp.MustCompile(`(?ms)^## (?:Unreleased|` + regexp.QuoteMeta(version[1]) + `\b)[^\n]*\n.*?(?:^## |\z)`)
	changes := section.FindAllString(read(t, "docs/CHANGELOG.md"), -1)
	if !strings.Contains(strings.Join(changes, ""), "]("+page+")") {
		t.Errorf("the changes of %s in docs/CHANGELOG.md have no link to %s", version[1], page)
	}
}
