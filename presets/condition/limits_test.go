package condition

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

// TestLimits: a small expression cannot take all memory or time. Most of these would.
func TestLimits(t *testing.T) {
	t.Parallel()
	const (
		cancelled = "actual cost limit exceeded"
		longText  = "the text would have"
		manyItems = "the list has more than 4096 items"
	)
	// 250 KB of text
	big := `["` + strings.Repeat("a", 60) + `" + object.metadata.name]` + strings.Repeat(`.map(s, s.replace("a", "`+strings.Repeat("a", 64)+`"))`, 2)
	long, entries := make([]any, 5000), map[string]any{}
	for i := range long {
		long[i], entries[strconv.Itoa(i)] = "a", "a"
	}
	vm := map[string]any{"long": long, "map": entries, "n": int64(5000), "metadata": map[string]any{"name": "web-1", "pattern": strings.Repeat("x{1000}", 8)}}
	for name, row := range map[string]struct{ expression, problem string }{
		"replaced text grows":            {`["aaaaaaaaaa"]` + strings.Repeat(`.map(s, s.replace("a", "aaaaaaaaaa"))`, 9) + `.size() > 0`, longText},
		"formatted text grows":           {`["a"]` + strings.Repeat(`.map(s, "%s%s%s%s%s%s%s%s".format([s,s,s,s,s,s,s,s]))`, 8) + `.size() > 0`, cancelled},
		"formatted nested lists":         {`object.n > 0 && [[1]]` + strings.Repeat(`.map(l, [l, l])`, 14) + `.exists(l, "%s".format([[` + strings.Repeat("l, ", 15) + `l]]) == "")`, longText},
		"joined text":                    {`lists.range(1500).map(i, "a").join("` + strings.Repeat("x", 600) + `").size() > 0`, longText},
		"quoted text doubles":            {`["\\"]` + strings.Repeat(`.map(s, strings.quote(s))`, 24) + `.size() > 0`, longText},
		"nested lists are equal":         {`[[1]]` + strings.Repeat(`.map(l, [l, l])`, 24) + `.exists(l, l == l)`, cancelled},
		"nested optionals are equal":     {`[[1]]` + strings.Repeat(`.map(l, [optional.of(l), optional.of(l)])`, 24) + `.exists(l, l == l)`, cancelled},
		"nested maps are equal":          {`[{"a": 1}]` + strings.Repeat(`.map(m, {"a": m, "b": m})`, 24) + `.exists(m, m == m)`, cancelled},
		"mapped maps are equal":          {`[{"a": 1}]` + strings.Repeat(`.map(m, {"a": 1, "b": 2}.transformMap(k, v, m))`, 18) + `.exists(m, m == m)`, cancelled},
		"a list in nested lists":         {`[[1]]` + strings.Repeat(`.map(l, [l, l])`, 24) + `.exists(l, l in [l])`, cancelled},
		"lists are added":                {`[[1]]` + strings.Repeat(`.map(l, l + l)`, 24) + `[0].size() > 0`, cancelled},
		"flattened lists":                {`lists.range(3000).map(i, [i, i]).flatten().size() > 0`, manyItems},
		"a long range":                   {`lists.range(5000).size() > 0`, "lists.range supports at most 4096, not 5000"},
		"split text":                     {big + `.exists(s, s.split("").size() > 0)`, manyItems},
		"a loop over a long list":        {`object.long.all(s, s != "b")`, manyItems},
		"a loop over a long map":         {`object.map.all(k, k != "b")`, manyItems},
		"a loop over an added list":      {`(object.long + object.long).exists(s, s == "b")`, manyItems},
		"a loop over an optional list":   {`object.?long.orValue([]).exists(s, s == "b")`, manyItems},
		"all matches":                    {big + `.exists(s, s.findAll("").size() > 0)`, manyItems},
		"a literal pattern in long text": {big + `.exists(s, s.matches(".{0,78}b"))`, "is too long for a regular expression"},
		"many matches":                   {`lists.range(4000).all(i, "` + strings.Repeat("a", 255) + `".matches('(.{0,30}){30}b') || true)`, cancelled},
		"characters of long text":        {big + `.exists(s, lists.range(4000).all(i, s.charAt(i) == "a"))`, cancelled},
		"queries of long addresses":      {`[url("http://a/?" + "` + strings.Repeat("a", 64) + `".replace("a", "` + strings.Repeat("a=b&", 64) + `"))].exists(u, lists.range(4000).all(i, u.getQuery().size() > 0))`, cancelled},
		"replacing a few is fine":        {big + `.exists(s, s.replace("a", "bb", 1) != "" && s.replace("a", "") == "web-1")`, ""},
		"a very long pattern":            {big + `.exists(s, "a".matches(s))`, cancelled},
		"some matches are fine":          {`"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]+", 1) == ["1"] && "a1".find("[0-9]") == "1"`, ""},
		"a computed pattern":             {`"xN".matches("x{1000}x{1000}" + "x{1000}x{1000}x{1000}")`, cancelled},
		"a pattern of the VM":            {`object.metadata.name.find(object.metadata.pattern) == ""`, "the regular expression is too large"},
		"many computed patterns":         {`lists.range(4000).all(i, !"xN".matches("x{1000}x{1000}" + "x{1000}x{1000}"))`, cancelled},
		"a huge quantity":                {`quantity("1e100000000").isGreaterThan(quantity("1"))`, `quantity "1e100000000" has too many digits`},
		"a huge quantity that may be":    {`isQuantity("1e-100000000")`, `quantity "1e-100000000" has too many digits`},
		"patterns of a list are fine":    {`["^web", "^db"].exists(p, object.metadata.name.matches(p))`, ""},
		"formatted names are fine":       {`"%s-%d".format([object.metadata.name, 1]) == "web-1-1"`, ""},
		"parts of names are fine":        {`object.metadata.name.split("-").join("_").replace("_", "") == "web1"`, ""},
		"short ranges are fine":          {`lists.range(300).filter(i, i % 2 == 0).map(i, [i]).flatten().distinct().size() == 150`, ""},
		"comparisons of lists are fine":  {`[object.metadata.name] == ["web-1"] && object.metadata == object.metadata && sets.contains(["a", "b"], ["b"])`, ""},
		"comparisons of sizes are fine":  {`quantity("4Gi").compareTo(quantity("4096Mi")) == 0`, ""},
		"quantities of a VM may be fine": {`isQuantity("1e3") && !isQuantity("a")`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, err := new(Compiler).Compile(row.expression, "must be true or false", cel.BoolType)
			if err != nil {
				t.Fatal(err)
			}
			e := Evaluation{Context: t.Context(), Object: vm, Budget: MaxCost}
			switch holds, err := e.Holds(x); {
			case row.problem == "" && (err != nil || !holds):
				t.Errorf("got %v, %v", holds, err)
			case row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)):
				t.Errorf("got %v, want %q", err, row.problem)
			}
		})
	}
}

// TestPatternsInVariables: the limit of regular expressions holds for a literal in a variable.
func TestPatternsInVariables(t *testing.T) {
	t.Parallel()
	var c Compiler
	pattern := `"` + strings.Repeat("x{1000}", 5) + `"`
	if _, err := c.Compile(`"a".matches(`+pattern+`)`, "must be true or false", cel.BoolType); err == nil {
		t.Error("a large pattern compiles")
	}
}
