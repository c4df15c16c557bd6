package launcher

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/libvirtd"
)

// The sockets of the launcher: the manager uses the first one, by LauncherControl, and the
// kubelet's probes use the second one.
const (
	controlSocket = v1alpha1.RunFolder + "/control.sock"
	probeSocket   = v1alpha1.RunFolder + "/probe.sock"
)

// serve listens on both sockets until the launcher ends.
func (g *guest) serve() error {
	control := func(client net.Conn, input *bufio.Reader, line string) error {
		return g.control(client, input, v1alpha1.LauncherAction(line))
	}
	probe := func(client net.Conn, _ *bufio.Reader, line string) error {
		var p Probe
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			return err
		}
		return g.probe(&p)
	}
	return errors.Join(listen(controlSocket, control), listen(probeSocket, probe))
}

// listen serves a socket: it reads a line and passes the client to a function. It answers with the
// function's error, or "ok", unless the error is errAnswered.
func listen(socket string, serve func(net.Conn, *bufio.Reader, string) error) error {
	_ = os.Remove(socket) // of a launcher that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				input := bufio.NewReader(client)
				line, err := input.ReadString('\n')
				if err == nil {
					_ = answer(client, serve(client, input, strings.TrimSpace(line))) // the client may have disconnected
				}
			}()
		}
	}()
	return nil
}

// errAnswered says that the client has its answer already.
var errAnswered = errors.New("answered")

// answer writes the first line of the output: the result of an action.
func answer(to io.Writer, err error) error {
	var rejected conflict
	text := "ok"
	switch {
	case errors.Is(err, errAnswered):
		return nil
	case errors.As(err, &rejected):
		text = "conflict " + rejected.Error()
	case err != nil:
		text = "failed " + err.Error()
	}
	_, err = fmt.Fprintln(to, strings.ReplaceAll(text, "\n", "; "))
	return err
}

// control executes an action of the manager.
func (g *guest) control(client net.Conn, input io.Reader, action v1alpha1.LauncherAction) error {
	if port, is := strings.CutPrefix(string(action), string(v1alpha1.LauncherPortForward)+" "); is {
		return g.forward(client, input, port)
	}
	switch action {
	case v1alpha1.LauncherConsole:
		if err := g.serial.attach(client, input); err != nil && g.serial.wire == nil {
			return err
		}
		return errAnswered
	case v1alpha1.LauncherVNC:
		return g.display(client, input)
	}
	ctx, c := context.Background(), g.connection.Load()
	state, err := c.State(ctx, g.domain)
	if err != nil {
		return err
	}
	if err := allowed(action, state); err != nil {
		return err
	}
	switch action {
	case v1alpha1.LauncherPause:
		err = c.Suspend(ctx, g.domain)
	case v1alpha1.LauncherUnpause:
		err = c.Resume(ctx, g.domain)
	case v1alpha1.LauncherReset:
		err = c.Reset(ctx, g.domain)
	case v1alpha1.LauncherSoftReboot:
		err = g.reboot(ctx, c)
	}
	if libvirtd.Invalid(err) { // the state has changed
		return conflict(err.Error())
	}
	return err
}

// reboot reboots the guest by its agent if that is connected, or else by ACPI.
func (g *guest) reboot(ctx context.Context, c *libvirtd.Connection) error {
	d, err := c.XML(ctx, g.domain)
	if err != nil {
		return err
	}
	return c.Reboot(ctx, g.domain, agentConnected(d))
}

// display connects a client to QEMU's VNC server.
func (g *guest) display(client net.Conn, input io.Reader) error {
	if g.vnc == "" {
		return errors.New("the VMI has no graphics device")
	}
	server, err := net.Dial("unix", g.vnc)
	if err != nil {
		return fmt.Errorf("cannot connect to the display: %w", err)
	}
	return join(client, input, server)
}

// Control connects the input and output of the manager's command to the launcher.
func Control(input io.Reader, output io.Writer) error {
	server, err := net.Dial("unix", controlSocket)
	if err != nil {
		return answer(output, fmt.Errorf("the launcher cannot be reached: %w", err))
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, input)
		_ = server.(*net.UnixConn).CloseWrite() //nolint:forcetypeassert // it dialled a UNIX socket
	}()
	_, err = io.Copy(output, server)
	return err
}

// A ProbeKind selects a check of the launcher.
type ProbeKind string

// The kinds of probes. The last two need the guest's agent.
const (
	probeStarted    ProbeKind = "started"
	probeReady      ProbeKind = "ready"
	probeGuestAgent ProbeKind = "guest-agent"
	probeExec       ProbeKind = "exec"
)

// A Probe is a request of the kubelet.
type Probe struct {
	Kind ProbeKind `json:"kind"`
	// Command is for probeExec.
	Command []string `json:"command,omitempty"`
	// Timeout of the guest's agent, in seconds.
	Timeout int32 `json:"timeout,omitempty"`
}

// Run sends the probe to the launcher and returns why it failed.
func (p *Probe) Run() error {
	server, err := net.Dial("unix", probeSocket)
	if err != nil {
		return errors.New("the guest has not started")
	}
	defer func() { _ = server.Close() }()
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(server, "%s\n", text); err != nil {
		return err
	}
	line, err := bufio.NewReader(server).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if line = strings.TrimSpace(line); line != "ok" {
		return errors.New(strings.TrimPrefix(line, "failed "))
	}
	return nil
}

func (g *guest) probe(p *Probe) error {
	if !g.started.Load() {
		return errors.New("the guest has not started")
	}
	switch p.Kind {
	case probeStarted:
		return nil
	case probeReady:
		return g.ready()
	case probeGuestAgent:
		_, err := g.connection.Load().Agent(context.Background(), g.domain, `{"execute": "guest-ping"}`, max(p.Timeout, 1))
		return err
	case probeExec:
		return g.execute(p)
	}
	return fmt.Errorf("unsupported probe %q", p.Kind)
}

func (g *guest) ready() error {
	ctx, c := context.Background(), g.connection.Load()
	state, err := c.State(ctx, g.domain)
	switch {
	case err != nil:
		return err
	case state == libvirtd.Running:
		return nil
	case state == libvirtd.Paused:
		return errors.New("the guest is paused")
	case state == libvirtd.Stuck:
		disks, err := c.DiskErrors(ctx, g.domain)
		if err == nil && len(disks) > 0 {
			return fmt.Errorf("the guest is paused: I/O error on disk %s", strings.Join(disks, ", "))
		}
		return errors.New("the guest is paused by QEMU: I/O error or watchdog")
	}
	return errors.New("the guest does not run")
}

// execute runs a command in the guest and waits for its exit code.
func (g *guest) execute(p *Probe) error {
	const pollPeriod = 100 * time.Millisecond
	if len(p.Command) == 0 {
		return errors.New("no command")
	}
	timeout := max(p.Timeout, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeout)*time.Second)
	defer cancel()
	var begun struct {
		PID int `json:"pid"`
	}
	arguments := map[string]any{"path": p.Command[0], "arg": p.Command[1:], "capture-output": true}
	if err := g.ask(ctx, "guest-exec", arguments, timeout, &begun); err != nil {
		return err
	}
	for {
		var status struct {
			Exited   bool   `json:"exited"`
			ExitCode int    `json:"exitcode"`
			Signal   int    `json:"signal"`
			Output   string `json:"out-data"`
			Errors   string `json:"err-data"`
		}
		if err := g.ask(ctx, "guest-exec-status", map[string]any{"pid": begun.PID}, timeout, &status); err != nil {
			return err
		}
		if status.Exited {
			if status.ExitCode == 0 && status.Signal == 0 {
				return nil
			}
			out, _ := base64.StdEncoding.DecodeString(status.Output)
			more, _ := base64.StdEncoding.DecodeString(status.Errors)
			return fmt.Errorf("the command exited with code %d: %s", status.ExitCode, strings.Join(strings.Fields(string(out)+" "+string(more)), " "))
		}
		select {
		case <-ctx.Done():
			return errors.New("the command timed out")
		case <-time.After(pollPeriod):
		}
	}
}

// ask sends a command to the guest's agent and reads its result.
func (g *guest) ask(ctx context.Context, command string, arguments map[string]any, timeout int32, result any) error {
	text, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	// libvirt limits the time of the agent; cancelling the call would close the connection.
	answer, err := g.connection.Load().Agent(context.WithoutCancel(ctx), g.domain, string(text), timeout)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(answer), &struct {
		Return any `json:"return"`
	}{result})
}
