import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.StandardProtocolFamily;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs main methods of others in one JVM, which costs a second less for each than one of its own.
 * The argument is a socket to listen on. A connection is one run; what goes over it are frames of a
 * letter, a length of four bytes, and so many bytes. To here: A an argument, the class being the
 * first; G to go; I some of standard input, its end being empty; T to end with a code, as after a
 * signal. From here: O and E some of both outputs; X the exit code, which is the last.
 *
 * What System.in, out and err are is told by the thread: a run's threads inherit the run. Kafka's
 * tools keep state in static fields, so each run has classes of the tools of its own.
 */
public final class Tools {
    private static final InheritableThreadLocal<Run> RUN = new InheritableThreadLocal<>();

    public static void main(String[] args) throws Exception {
        PrintStream err = System.err;
        InputStream owner = System.in;
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(args[0]));
        System.setIn(new In());
        System.out.println("ready");
        System.setOut(new PrintStream(new Out('O', System.out), true));
        System.setErr(new PrintStream(new Out('E', err), true));
        Exit.setExitProcedure((code, message) -> exit(code, message));
        Exit.setHaltProcedure((code, message) -> exit(code, message));
        Exit.setShutdownHookAdder((name, hook) -> RUN.get().hooks.add(hook));
        Thread end = new Thread(() -> {
            try {
                while (owner.read() >= 0) { }
            } catch (IOException e) {
                // It is gone, too.
            }
            Runtime.getRuntime().halt(0);
        });
        end.setDaemon(true);
        end.start();
        for (;;) {
            Run run = new Run(server.accept());
            new Thread(run::serve).start();
        }
    }

    /** What a main method runs into that asks for the end of its process: what it catches, and prints of it, nobody sees. */
    private static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    private static void exit(int code, String message) {
        Run run = RUN.get();
        if (message != null) {
            System.err.println(message);
        }
        run.ends(code);
        run.runHooks();
        run.close();
        throw new Exited();
    }

    private static final class Run {
        final List<Runnable> hooks = new ArrayList<>();
        final BlockingQueue<byte[]> in = new LinkedBlockingQueue<>();
        final SocketChannel channel;
        byte[] rest = new byte[0]; // of standard input
        int at;
        private final List<String> args = new ArrayList<>();
        private Thread main;
        private Integer code; // once it is known; guarded by this
        private boolean closed;

        Run(SocketChannel channel) {
            this.channel = channel;
        }

        /** Reads frames until the other side has gone. */
        void serve() {
            RUN.set(this);
            try {
                for (;;) {
                    ByteBuffer head = read(5);
                    char letter = (char) head.get();
                    byte[] body = read(head.getInt()).array();
                    switch (letter) {
                        case 'A': args.add(new String(body, StandardCharsets.UTF_8)); break;
                        case 'G': main = new Thread(this::run, args.get(0)); main.start(); break;
                        case 'I': in.add(body); break;
                        case 'T': stop(body[0] & 0xff); break;
                        default: throw new IOException("frame " + letter);
                    }
                }
            } catch (IOException e) {
                stop(130); // nobody waits for it any more
            }
        }

        /** The thread that main runs in. */
        private void run() {
            try (Loader loader = new Loader()) {
                Thread.currentThread().setContextClassLoader(loader);
                String[] rest = args.subList(1, args.size()).toArray(new String[0]);
                loader.loadClass(args.get(0)).getMethod("main", String[].class).invoke(null, (Object) rest);
                ends(0);
            } catch (InvocationTargetException e) {
                if (!(e.getCause() instanceof Exited)) {
                    System.err.print("Exception in thread \"main\" ");
                    e.getCause().printStackTrace();
                }
                ends(1);
            } catch (Throwable e) {
                e.printStackTrace();
                ends(1);
            }
            runHooks();
            close();
        }

        /** The first code that is told is the process's. */
        synchronized void ends(int code) {
            if (this.code == null) {
                this.code = code;
            }
        }

        private void stop(int code) {
            ends(code);
            runHooks();
            close();
            if (main != null) {
                main.interrupt();
            }
        }

        private void runHooks() {
            List<Runnable> now;
            synchronized (hooks) {
                now = new ArrayList<>(hooks);
                hooks.clear();
            }
            now.forEach(Runnable::run);
        }

        /** Says the code. Nothing is flushed: a PrintStream keeps nothing back, and its lock is for others to hold. */
        private synchronized void close() {
            if (closed) {
                return;
            }
            write('X', new byte[] {code.byteValue()}, 0, 1);
            closed = true;
            try {
                channel.close();
            } catch (IOException e) {
                // Nobody is there to be told.
            }
        }

        synchronized void write(char letter, byte[] b, int from, int n) {
            if (closed) {
                return;
            }
            ByteBuffer frame = ByteBuffer.allocate(5 + n).put((byte) letter).putInt(n).put(b, from, n).flip();
            try {
                while (frame.hasRemaining()) {
                    channel.write(frame);
                }
            } catch (IOException e) {
                closed = true;
            }
        }

        private ByteBuffer read(int n) throws IOException {
            ByteBuffer b = ByteBuffer.allocate(n);
            while (b.hasRemaining()) {
                if (channel.read(b) < 0) {
                    throw new IOException("end");
                }
            }
            return b.flip();
        }
    }

    /** Loads the tools anew, and everything else once for all. */
    private static final class Loader extends URLClassLoader {
        Loader() throws ClassNotFoundException {
            super(new URL[] {Class.forName("org.apache.kafka.tools.TopicCommand").getProtectionDomain().getCodeSource().getLocation()});
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("org.apache.kafka.tools.")) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> c = findLoadedClass(name);
                if (c != null) {
                    return c;
                }
                try {
                    return findClass(name);
                } catch (ClassNotFoundException e) {
                    return super.loadClass(name, resolve); // a jar of that name beside it
                }
            }
        }
    }

    private static final class Out extends OutputStream {
        private final char letter;
        private final PrintStream nobodys;

        Out(char letter, PrintStream nobodys) {
            this.letter = letter;
            this.nobodys = nobodys;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] b, int from, int n) {
            Run run = RUN.get();
            if (run != null) {
                run.write(letter, b, from, n);
            } else {
                nobodys.write(b, from, n);
                nobodys.flush();
            }
        }
    }

    private static final class In extends InputStream {
        @Override
        public int read() throws IOException {
            byte[] b = new byte[1];
            return read(b, 0, 1) < 0 ? -1 : b[0] & 0xff;
        }

        @Override
        public int available() {
            Run run = RUN.get();
            return run.rest == null ? 0 : run.rest.length - run.at;
        }

        @Override
        public int read(byte[] b, int from, int most) throws IOException {
            Run run = RUN.get();
            try {
                if (run.rest != null && run.at == run.rest.length) {
                    run.rest = run.in.take();
                    run.at = 0;
                }
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
            if (run.rest == null || run.rest.length == 0) {
                run.rest = null;
                return -1;
            }
            int n = Math.min(most, run.rest.length - run.at);
            System.arraycopy(run.rest, run.at, b, from, n);
            run.at += n;
            return n;
        }
    }
}
