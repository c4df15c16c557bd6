package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// obscure are phrases that make text hard to read: indirect subjects, old words, private idioms. A
// phrase may be broken over lines.
var obscure = phrases(
	"nobody", "somebody", "someone", "whoever", "whatever", "whichever", "those who", "he who",
	"what (?:is|are|was|were|has|have|had|there)", "(?:by|of|for|to|with|from|than) who",
	"of which", "of whom", "(?:is|are|was|were|be|been) told", "tells? (?:of|that|it)",
	"lends?", "shall", "at last", "such as it is", "ha(?:s|ve) it that", "anew",
	"has (?:the|an?|each|every|one|its) [a-z]+ (?:begin|do|made|wait|look)",
	"goes? on [a-z]+ing", "in the way", "is there (?:to|for)", "for the sake", "come to pass",
	"by themselves", "as it were", "beside (?:KubeVirt|it|them)",
	"thereby", "therein", "thereof", "thereupon", "hereby", "whereby", "wherein",
)

// phrases matches any of the patterns as whole words, in text that may be a comment.
func phrases(patterns ...string) *regexp.Regexp {
	all := strings.ReplaceAll(strings.Join(patterns, "|"), " ", `(?:\s|//|#)+`)
	return regexp.MustCompile(`(?i)\b(?:` + all + `)\b`)
}

// account is the name of the Unix account without rights.
const account = `"nobody"`

// maxWidth is the longest line of a comment or of documentation, in columns.
const maxWidth = 100

// tabWidth is how many columns a tab takes.
const tabWidth = 4

// longWords are lines that cannot be wrapped: addresses, and directives to programs.
var longWords = regexp.MustCompile(`https?://|^\s*//(?:go:|nolint| ?\+kubebuilder)`)

// words finds obscure phrases in comments, strings and documentation.
func words(t *tree) []string {
	var found []string
	for _, source := range t.written() {
		if source.dir() == "test/arch" {
			continue // it quotes the phrases
		}
		for _, group := range source.file.Comments {
			for _, comment := range group.List {
				found = append(found, source.wide(comment)...)
			}
			start := source.files.Position(group.Pos())
			found = append(found, obscureIn(source.Path, start.Line, source.text(group))...)
		}
		ast.Inspect(source.file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING && literal.Value != account {
				found = append(found, obscureIn(source.Path, source.files.Position(literal.Pos()).Line, literal.Value)...)
			}
			return true
		})
	}
	for _, page := range t.Pages {
		found = append(found, obscureIn(page.Path, 1, page.Text)...)
		found = append(found, page.wide()...)
	}
	return found
}

// text is a group of comments as it stands in the source.
func (s *sourceFile) text(group *ast.CommentGroup) string {
	var out []string
	for _, comment := range group.List {
		out = append(out, comment.Text)
	}
	return strings.Join(out, "\n")
}

// wide finds a comment on its own line that is too wide.
func (s *sourceFile) wide(comment *ast.Comment) []string {
	indent := s.files.Position(comment.Pos()).Column - 1
	wide := indent*tabWidth+utf8.RuneCountInString(comment.Text) > maxWidth
	if !wide || !s.ownLine[s.files.Position(comment.Pos()).Line] || longWords.MatchString(comment.Text) {
		return nil
	}
	return []string{s.at(comment.Pos(), "a comment is wider than %d columns", maxWidth)}
}

func obscureIn(path string, line int, text string) []string {
	var found []string
	for _, at := range obscure.FindAllStringIndex(text, -1) {
		found = append(found, fmt.Sprintf("%s:%d: %q is hard to read: say it directly",
			path, line+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]]))
	}
	return found
}

// page is a file that people read and that is not Go.
type page struct {
	// Path is slash-separated and relative to the root.
	Path string
	// Text is its content.
	Text string
}

// isPage reports whether a file is documentation, a script, the Makefile, or YAML of a chart or an
// example.
func isPage(rel string) bool {
	switch path.Ext(rel) {
	case ".md", ".sh", ".tpl", ".txt":
		return true
	case ".yaml", ".yml":
		chart := strings.HasPrefix(rel, "charts/") && !strings.Contains(rel, "/files/crds/")
		return chart || strings.HasPrefix(rel, "examples/")
	}
	return rel == "Makefile" || rel == ".ci/run"
}

// wide finds lines of Markdown, and comments of other files, that are too wide. Tables and code
// cannot be wrapped.
func (p *page) wide() []string {
	var found []string
	code := false
	for i, line := range strings.Split(p.Text, "\n") {
		if path.Ext(p.Path) != ".md" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code || strings.HasPrefix(line, "|") || longWords.MatchString(line) || utf8.RuneCountInString(line) <= maxWidth {
			continue
		}
		found = append(found, fmt.Sprintf("%s:%d: the line is wider than %d columns", p.Path, i+1, maxWidth))
	}
	return found
}
