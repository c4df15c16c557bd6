package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The colours, as ANSI codes of one length, so that columns of a table stay aligned.
const (
	plainText = "39"
	red       = "31"
	green     = "32"
	yellow    = "33"
	magenta   = "35"
	cyan      = "36"
)

// style colours text for a terminal, and leaves text for other readers as it is.
type style bool

// styleOf is on for a terminal that shows colours, unless the user does not want them.
func styleOf(w io.Writer) style { return style(isTerminal(w) && os.Getenv("NO_COLOR") == "") }

// isTerminal reports whether w is a terminal that knows more than plain lines.
func isTerminal(w io.Writer) bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	if of, ok := w.(interface{ Fd() uintptr }); ok {
		return term.IsTerminal(int(of.Fd())) //nolint:gosec // file descriptors are small
	}
	of, ok := w.(interface{ IsTerminal() bool })
	return ok && of.IsTerminal()
}

func (s style) paint(colour, text string) string {
	if !s {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// difference colours the lines of a unified difference.
func (s style) difference(text string) string {
	if !s {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		colour := ""
		switch line[0] {
		case '+':
			colour = green
		case '-':
			colour = red
		case '@':
			colour = cyan
		}
		if body, end, _ := strings.Cut(line, "\n"); colour != "" {
			line = s.paint(colour, body) + "\n" + end
		}
		out.WriteString(line)
	}
	return out.String()
}

// progress says on a terminal how much of long work is done.
type progress struct {
	out            io.Writer
	verb           string
	total          int
	started, shown time.Time
	// now is the clock.
	now func() time.Time
}

const (
	// quietFor is how long work takes before its progress is shown.
	quietFor = time.Second
	// refreshed is how often progress is shown.
	refreshed = 100 * time.Millisecond
)

// newProgress shows nothing unless standard error is a terminal, and standard output is not.
func newProgress(s streams, verb string, total int) *progress {
	p := &progress{verb: verb, total: total, now: time.Now}
	if isTerminal(s.err) && !isTerminal(s.out) {
		p.out = s.err
	}
	p.started = p.now()
	return p
}

// at says that so many VMs are done.
func (p *progress) at(done int) {
	if p.out == nil {
		return
	}
	if now := p.now(); now.Sub(p.started) > quietFor && now.Sub(p.shown) > refreshed {
		p.shown = now
		fmt.Fprint(p.out, message.NewPrinter(language.English).Sprintf("\r\x1b[K%s %d of %d VMs", p.verb, done, p.total))
	}
}

// clear removes the line, so that other text can follow.
func (p *progress) clear() {
	if p.out != nil && !p.shown.IsZero() {
		p.shown = time.Time{}
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
