package bench

// The benchmark of a job's whole run, from the claim to the acknowledgement, for
// profiles: go test -bench Drain -cpuprofile. The server is a process of its own,
// so that the profile is the client's alone.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/internal/embed"
)

// serverEnv makes the test binary a server, with its data in the named folder.
const serverEnv = "WEFT_BENCH_SERVER"

// profileEnv names a file for the server's own profile.
const profileEnv = "WEFT_BENCH_SERVER_PROFILE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serve(dir string) error {
	if name := os.Getenv(profileEnv); name != "" {
		file, err := os.Create(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s := embed.New(embed.Options{DataDir: dir, Listen: true, Port: -1})
	if err := s.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println(s.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop(context.Background())
}

// serverProcess is a server that ends with the benchmark; used gives the processor time
// that it took.
func serverProcess(b *testing.B) (nc *nats.Conn, used func() time.Duration) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+b.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	nc, err = nats.Connect(strings.TrimSpace(url))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return nc, func() time.Duration { return processTime(b, cmd.Process.Pid) }
}

// processTime reads what the kernel has counted for a process, in ticks of 10 ms.
func processTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDrain(b *testing.B) {
	for _, slots := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) { benchmarkDrain(b, slots) })
	}
}

func benchmarkDrain(b *testing.B, slots int) {
	nc, used := serverProcess(b)
	ctx := b.Context()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		b.Fatal(err)
	}
	o := DefaultOptions()
	r := &run{o: o, nc: nc, js: js, namespace: "bench"}
	opts := fabric.DefaultOptions()
	opts.Namespace, opts.Logger = r.namespace, o.Logger
	if r.f, err = fabric.Open(ctx, nc, opts); err != nil {
		b.Fatal(err)
	}
	defer r.f.Close()
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stop()
	keeper.Go(func() { _ = r.f.Keep(keeping) })
	if err := r.enqueue(ctx, "s", b.N); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	server, client, before := used(), ownTime(), nc.Stats()
	b.ResetTimer()
	if _, err := r.drain(ctx, "s", slots, b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	perJob := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(perJob(used()-server), "server-us/op")
	b.ReportMetric(perJob(ownTime()-client), "client-us/op")
	b.ReportMetric(float64(nc.Stats().OutMsgs-before.OutMsgs)/float64(b.N), "out-msgs/op")
	b.ReportMetric(float64(nc.Stats().InMsgs-before.InMsgs)/float64(b.N), "in-msgs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkRaw is what bounds a job's run, measured alike: the compare-and-set, and
// the item consumed and acknowledged.
func BenchmarkRaw(b *testing.B) {
	for _, step := range []string{"swap", "consume"} {
		b.Run(step, func(b *testing.B) { benchmarkRaw(b, step) })
	}
}

func benchmarkRaw(b *testing.B, step string) {
	nc, used := serverProcess(b)
	ctx := b.Context()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxPending))
	if err != nil {
		b.Fatal(err)
	}
	o := DefaultOptions()
	o.Jobs = b.N
	r := &run{o: o, nc: nc, js: js, namespace: "bench", give: func(Figure) {}}
	if err := r.rawStreams(ctx); err != nil {
		b.Fatal(err)
	}
	n := 2 * b.N
	if step == "consume" {
		n = b.N
		if err := r.rawPublish(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	server, client := used(), ownTime()
	b.ResetTimer()
	if step == "swap" {
		err = r.rawSwap(ctx)
	} else {
		err = r.rawConsume(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	b.ReportMetric(each(used()-server), "server-us/msg")
	b.ReportMetric(each(ownTime()-client), "client-us/msg")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msgs/s")
}
