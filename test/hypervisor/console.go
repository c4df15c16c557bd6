package hypervisor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// mark begins what the guest says; other lines are firmware's or the kernel's.
const mark = "GUEST "

// volatile begins the keys of facts that differ from boot to boot.
const volatile = "volatile/"

// Console is the file to which the serial console of a guest is logged.
type Console string

// Boot is what a guest said from one boot to the next.
type Boot struct {
	// Facts are what it says about its hardware; complete when Ready.
	Facts Facts
	Ready bool
	// Events are what happened afterwards: powerbutton, agent-shutdown, poweroff, reboot, crash or
	// pong.
	Events []string
}

// Facts are by key; a key is a path: block/vda/serial.
type Facts map[string]string

// Boots are the boots that were logged, the latest last. A file that does not exist yet has none.
func (c Console) Boots() ([]Boot, error) {
	content, err := os.ReadFile(string(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the console of a guest: %w", err)
	}
	return parseConsole(string(content)), nil
}

// Ready returns the facts of the first boot when it is complete. The error carries the end of the
// log.
func (c Console) Ready(ctx context.Context) (Facts, error) {
	boots, err := c.Await(ctx, "ready", func(boots []Boot) bool { return len(boots) > 0 && boots[0].Ready })
	if err != nil {
		return nil, err
	}
	return boots[0].Facts, nil
}

// Event returns when the latest boot has had the event.
func (c Console) Event(ctx context.Context, event string) error {
	_, err := c.Await(ctx, event, func(boots []Boot) bool {
		return len(boots) > 0 && slices.Contains(boots[len(boots)-1].Events, event)
	})
	return err
}

// Await returns the boots when they are as told; what names that in the error.
func (c Console) Await(ctx context.Context, what string, as func([]Boot) bool) ([]Boot, error) {
	for {
		boots, err := c.Boots()
		if err != nil {
			return nil, err
		}
		if as(boots) {
			return boots, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot see %q on the console of a guest: %w; the end of its log:\n%s", what, ctx.Err(), tail(string(c)))
		case <-time.After(pollInterval):
		}
	}
}

// parseConsole reads the lines of a guest. A last line without an end is still being written and is
// left out.
func parseConsole(log string) []Boot {
	var boots []Boot
	lines := strings.Split(strings.ReplaceAll(log, "\r", ""), "\n")
	for _, line := range lines[:len(lines)-1] {
		_, said, marked := strings.Cut(line, mark)
		if !marked {
			continue
		}
		if said == "boot" {
			boots = append(boots, Boot{Facts: Facts{}})
		}
		if len(boots) == 0 {
			continue // the log begins in the middle
		}
		boot := &boots[len(boots)-1]
		key, value, fact := strings.Cut(said, "=")
		switch {
		case said == "ready":
			boot.Ready = true
		case fact && key == "event":
			boot.Events = append(boot.Events, value)
		case fact:
			boot.Facts[key] = value
		}
	}
	return boots
}

// Names are the names below a topic, sorted: Names("block") are the disks.
func (f Facts) Names(topic string) []string {
	names := map[string]bool{}
	for key := range f {
		if below, ok := strings.CutPrefix(key, topic+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Find is the first name below a topic whose attribute has the value: Find("block", "serial",
// "root") is the disk with that serial. It is empty when there is none.
func (f Facts) Find(topic, attribute, value string) string {
	for _, name := range f.Names(topic) {
		if f[topic+"/"+name+"/"+attribute] == value {
			return name
		}
	}
	return ""
}

// Files are the files, up to 16 KiB of each, of the ISO image on a disk, by path.
func (f Facts) Files(disk string) map[string]string {
	files := map[string]string{}
	for key, value := range f {
		path, ok := strings.CutPrefix(key, "file/"+disk+"/")
		if !ok {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			content = []byte(err.Error())
		}
		files[path] = string(content)
	}
	return files
}

// Hardware are the facts that depend on nothing but the domain: two boots of one domain have them
// in common.
func (f Facts) Hardware() Facts {
	hardware := maps.Clone(f)
	maps.DeleteFunc(hardware, func(key, _ string) bool { return strings.HasPrefix(key, volatile) })
	return hardware
}

// typeLine types a line on a serial console that is a UNIX socket: poweroff, reboot, crash or ping,
// which a guest that is ready obeys. The socket must have no other client.
func typeLine(ctx context.Context, socket, line string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("cannot reach the console of a guest: %w", err)
	}
	_, err = connection.Write([]byte(line + "\n"))
	if err := errors.Join(err, connection.Close()); err != nil {
		return fmt.Errorf("cannot type on the console of a guest: %w", err)
	}
	return nil
}
