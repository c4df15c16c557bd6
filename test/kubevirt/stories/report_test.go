package stories

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/virtwright/virtwright/test/golden"
	"github.com/virtwright/virtwright/test/kubevirt"
)

const (
	// subject is the name of report entries that say what a story compared.
	subject = "compared"
	// notReported is a label of stories about files that are not in the repository.
	notReported = "not reported"
)

// The report about a version of KubeVirt lists all stories and what they compared. A run of some
// stories reports nothing. With KubeVirt's default version, neither does a run that failed.
var _ = ReportAfterSuite("report", func(report Report) {
	specs := slices.DeleteFunc(report.SpecReports.WithLeafNodeType(types.NodeTypeIt), func(spec types.SpecReport) bool {
		return slices.Contains(spec.Labels(), notReported)
	})
	isPartial := slices.ContainsFunc(specs, func(spec types.SpecReport) bool { return spec.State == types.SpecStateSkipped })
	if here == nil || isPartial || !report.SuiteSucceeded && !kubevirt.IsOtherVersion() {
		return
	}
	var rows []string
	for _, spec := range specs {
		rows = append(rows, reportRow(spec))
	}
	slices.Sort(rows)
	version := strings.TrimPrefix(kubevirt.Version(), "v")
	minor := version[:strings.LastIndex(version, ".")]
	text := fmt.Sprintf(`# KubeVirt %s

The [stories](../test/kubevirt/stories) of mode `+"`addon`"+` run KubeVirt's own virt-api,
virt-controller and virtctl with virtwright, on simulated nodes. This page is their report: do not
edit it. [Compatibility](compatibility.md#kubevirt) says how to write it.

| story | result | compared |
|---|---|---|
%s
`, version, strings.Join(rows, "\n"))
	golden.Equal(GinkgoTB(), filepath.Join("../../../docs", "kubevirt-"+minor+".md"), text)
})

// reportRow is the row of a story in a report.
func reportRow(spec types.SpecReport) string {
	var entries []string
	for _, entry := range spec.ReportEntries {
		if entry.Name == subject {
			entries = append(entries, entry.StringRepresentation())
		}
	}
	result := "passes"
	if spec.Failed() {
		result = "fails"
	}
	return fmt.Sprintf("| %s | %s | %s |", spec.FullText(), result, strings.Join(entries, ", "))
}
