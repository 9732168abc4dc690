import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Tells, for each line of its input, a subject's name or what Kafka's rules make of one. */
public class Names {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            String answer;
            try {
                answer = parts.length == 1
                    ? new X500Principal(HexFormat.of().parseHex(parts[0])).getName()
                    : SslPrincipalMapper.fromRules(parts[0]).getName(parts[1]);
                answer = "=" + answer;
            } catch (Exception e) {
                answer = "!" + e.getClass().getSimpleName();
            }
            out.println(HexFormat.of().formatHex(answer.getBytes(StandardCharsets.UTF_8)));
        }
        out.flush();
    }
}
