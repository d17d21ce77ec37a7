package natstest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// clusterSize is how many servers a cluster has: the fewest that can lose one.
const clusterSize = 3

// Cluster runs three servers that replicate their streams among each other. It
// returns once they have a leader and know each other.
func Cluster(tb testing.TB, edit ...func(*server.Options)) []*Server {
	tb.Helper()
	routes := make([]*url.URL, clusterSize)
	ports := freePorts(tb, clusterSize)
	for i, port := range ports {
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	servers := make([]*Server, clusterSize)
	for i := range servers {
		member := func(o *server.Options) {
			o.ServerName = fmt.Sprintf("s%d", i+1)
			o.Cluster = server.ClusterOpts{Name: "weft-test", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}
		servers[i] = Start(tb, append([]func(*server.Options){member}, edit...)...)
	}
	awaitCluster(tb, servers)
	return servers
}

// The ports of a cluster's routes lie below those that the system gives out by
// itself. So nobody else is given one between its being found and its being used.
const (
	firstPort = 10_000
	portRange = 20_000
)

// lastPort counts the ports that this process has tried.
var lastPort atomic.Int64

// freePorts finds ports that nobody listens on. Each server must know the others'
// before it starts.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var ports []int
	for range portRange {
		// Processes of other packages' tests begin elsewhere.
		port := firstPort + (os.Getpid()*101+int(lastPort.Add(1)))%portRange
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	tb.Fatal("natstest: cluster: no free ports")
	return nil
}

func awaitCluster(tb testing.TB, servers []*Server) {
	tb.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.After(3 * ready); ; {
		if formed(servers) {
			return
		}
		select {
		case <-end:
			tb.Fatal("natstest: cluster not ready")
		case <-look.C:
		}
	}
}

func formed(servers []*Server) bool {
	leaders := 0
	for _, s := range servers {
		if !s.srv.JetStreamIsCurrent() || len(s.srv.JetStreamClusterPeers()) < len(servers) && s.srv.JetStreamIsLeader() {
			return false
		}
		if s.srv.JetStreamIsLeader() {
			leaders++
		}
	}
	return leaders == 1
}
