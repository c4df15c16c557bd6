package browser

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// audit runs axe-core, and returns the first elements that break each rule of serious impact.
const audit = `axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations
	.filter(rule => ["serious", "critical"].includes(rule.impact))
	.flatMap(rule => rule.nodes.slice(0, 3).map(node => rule.id + " " + node.target.join(" ") + ": " + node.failureSummary)))`

// Accessible checks the page in ctx with axe-core, which npm ci puts into the folder modules. The
// test fails for each serious or critical problem. It is skipped if axe-core is missing, unless
// VIRTWRIGHT_BROWSER=require.
func Accessible(ctx context.Context, t testing.TB, modules string) {
	t.Helper()
	axe, err := os.ReadFile(modules + "/axe-core/axe.min.js")
	if err != nil && os.Getenv(variable) != "require" {
		t.Skipf("run npm ci for axe-core: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(ctx, chromedp.Evaluate(string(axe)+";0", nil), chromedp.Evaluate(audit, &problems, wait)); err != nil {
		t.Fatal(fmt.Errorf("cannot run axe-core: %w", err))
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}
